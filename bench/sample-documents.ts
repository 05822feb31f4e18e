/** Documents to measure with: a few short members and a text that fills up to the size asked for. ASCII only. */

const WORDS = 'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et '

/** All of one length, and ascending, as the ids are that servers of the family give by default. */
export function documentId(number: number): string {
  return `document-${String(number).padStart(9, '0')}`
}

/** The members of a document, without braces, so that `_id` and `_rev` can be put before them. */
export function documentMembers(number: number, sizeBytes: number): string {
  const start = `"type":"sample","number":${1_000_000_000 + number},"active":true,"tags":["red","green"],"text":"`
  const room = Math.max(0, sizeBytes - start.length - 3)
  return `${start}${WORDS.repeat(Math.ceil(room / WORDS.length)).slice(0, room)}"`
}

export function bulkBody(firstNumber: number, count: number, sizeBytes: number): string {
  const documents: string[] = []
  for (let number = firstNumber; number < firstNumber + count; number++) {
    documents.push(`{"_id":"${documentId(number)}",${documentMembers(number, sizeBytes)}}`)
  }
  return `{"docs":[${documents.join(',')}]}`
}
