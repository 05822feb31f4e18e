/** The replies in what came over a connection. */

export interface WireReply {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  /** Latin-1; undefined where it is not all there. */
  readonly body: string | undefined
}

/**
 * The replies to requests of these methods, in order; interim ones are left out. Throws where the bytes are no replies.
 * A reply whose body is not complete is the last one.
 */
export function parseReplies(received: string, methods: readonly string[]): WireReply[] {
  const replies: WireReply[] = []
  let at = 0
  while (at < received.length) {
    const headEnd = received.indexOf('\r\n\r\n', at)
    if (headEnd < 0) throw new Error('The head of a reply is not complete.')
    const [line = '', ...fields] = received.slice(at, headEnd).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) [ -~]+$/.exec(line)?.[1])
    if (!(status >= 100 && status < 600)) throw new Error(`${JSON.stringify(line)} is not a status line.`)
    const headers = new Map(fields.map(readField))
    at = headEnd + 4
    if (status < 200) continue
    const isEmpty = methods[replies.length] === 'HEAD' || status === 204 || status === 304
    const { body, end } = isEmpty ? { body: '', end: at } : readBody(received, at, headers)
    replies.push({ status, headers, body })
    if (body === undefined) return replies
    at = end
  }
  return replies
}

function readField(field: string): [name: string, value: string] {
  const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):[\t ]*([\t\x20-\x7e\x80-\xff]*)$/.exec(field) ?? []
  if (name === undefined || value === undefined) throw new Error(`${JSON.stringify(field)} is not a header.`)
  return [name.toLowerCase(), value]
}

function readBody(text: string, from: number, headers: ReadonlyMap<string, string>) {
  const length = headers.get('content-length')
  const isChunked = headers.get('transfer-encoding') === 'chunked'
  if (length !== undefined && isChunked) throw new Error('A reply has a length and chunks.')
  if (isChunked) return readChunks(text, from)
  const end = length === undefined ? text.length : from + Number(length)
  return { body: end > text.length ? undefined : text.slice(from, end), end }
}

function readChunks(text: string, from: number): { body: string | undefined; end: number } {
  let body = ''
  let at = from
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd < 0) return { body: undefined, end: text.length }
    const line = text.slice(at, lineEnd)
    if (!/^[0-9a-f]+$/i.test(line)) throw new Error(`${JSON.stringify(line)} is not the size of a chunk.`)
    const size = Number.parseInt(line, 16)
    at = lineEnd + 2 + size + 2
    if (at > text.length) return { body: undefined, end: text.length }
    if (size === 0) return { body, end: at }
    body += text.slice(lineEnd + 2, at - 2)
  }
}

/** Whether there is one whole reply and nothing else, judged by its length. */
export function isWholeReply(received: string): boolean {
  const headEnd = received.indexOf('\r\n\r\n')
  if (headEnd < 0) return false
  const head = received.slice(0, headEnd)
  if (/\r\nTransfer-Encoding: chunked/i.test(head)) return received.endsWith('\r\n0\r\n\r\n')
  const length = /\r\nContent-Length: (\d+)/i.exec(head)?.[1]
  return length !== undefined && received.length >= headEnd + 4 + Number(length)
}
