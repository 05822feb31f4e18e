/**
 * The limit of building a view: the same documents parsed and mapped in a bare isolate, on one core, and nothing done with
 * what they emit. Prints how many milliseconds all of them take, the middle one of a few rounds. With a channel for messages, a
 * message with a duration starts a round instead; the answer has how many documents there were a second.
 */
import ivm from 'isolated-vm'
import { member } from '../bench-database.ts'
import { median } from '../comparison.ts'
import { documentId, documentMembers } from '../sample-documents.ts'

const ROUNDS = 3
/** Texts that lie where an isolate has its youngest: larger ones take longer. */
const PORTION = 100

const documents = Number(process.argv[2])
const sizeBytes = Number(process.argv[3])
const map = process.argv[4] ?? ''
const revision = `1-${'0123456789abcdef'.repeat(2)}`

const context = new ivm.Isolate({ memoryLimit: 512 }).createContextSync()
const mapAll = context.evalClosureSync(
  `
  let rows = 0
  let last
  const emit = (key, value) => { last = [key, value]; rows++ }
  const map = (${map})
  return (text) => {
    for (const document of JSON.parse(text)) map(document)
    return rows
  }`,
  [],
  { result: { reference: true } },
)
const portions = Array.from({ length: Math.ceil(documents / PORTION) }, (_, i) => portionFrom(i * PORTION))

function mappedMs(): number {
  const start = performance.now()
  for (const portion of portions) mapAll.applySync(undefined, [portion])
  return performance.now() - start
}

if (process.send) {
  process.on('message', (message) => {
    const durationMs = Number(member(message, 'durationMs'))
    let times = 0
    let busyMs = 0
    for (; busyMs < durationMs; times++) busyMs += mappedMs()
    process.send?.({ perSecond: (times * documents) / (busyMs / 1000) })
  })
  process.on('disconnect', () => process.exit())
} else console.log(`${median(Array.from({ length: ROUNDS }, mappedMs))} ms`)

function portionFrom(first: number): string {
  const texts: string[] = []
  for (let number = first; number < Math.min(documents, first + PORTION); number++) {
    texts.push(`{"_id":"${documentId(number)}","_rev":"${revision}",${documentMembers(number, sizeBytes)}}`)
  }
  return `[${texts.join(',')}]`
}
