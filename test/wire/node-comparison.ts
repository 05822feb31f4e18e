/**
 * Requests and what looks like them, read by this server and by Node's own parser. Where this one understands anything it must
 * be what Node understands: a proxy that reads another end of a request lets others smuggle requests through it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { expect } from 'vitest'
import { nodeServer, type Understood, wireServer } from './wire-server.ts'

const line = fc.constantFrom(
  'GET /a HTTP/1.1',
  'POST /b HTTP/1.1',
  'PUT /c?d HTTP/1.1',
  'GET http://x/y HTTP/1.1',
  'HEAD / HTTP/1.0',
  'POST /e HTTP/1.0',
  'OPTIONS * HTTP/1.1',
  'DELETE f HTTP/1.1',
  'GET  /g HTTP/1.1',
)
const field = fc.constantFrom(
  'Content-Length: 3',
  'Content-Length: 03',
  'Content-Length: 3 ',
  'Content-Length : 3',
  'Content-Length: 3,3',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding:\tchunked',
  'Transfer-Encoding: identity',
  'Transfer-encoding: chunked ',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: chunked, identity',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding: "chunked"',
  'Transfer-Encoding: chunked;a=b',
  'Transfer-Encoding: ,chunked',
  'Transfer-Encoding:',
  'Transfer-Encoding : chunked',
  'Transfer_Encoding: chunked',
  'Transfer-Encoding: \x0bchunked',
  'Transfer-Encoding: chunked\0',
  'Transfer-Encoding\n: chunked',
  'X: y\rTransfer-Encoding: chunked',
  'X: y\nContent-Length: 3',
  'Content-Length: +3',
  'Content-Length: 0x3',
  'Content-Length: 3;a',
  'Content-Length: 3 3',
  'Content-Length:',
  'Content-Length: 99999999999999999999',
  'Connection: close',
  'Connection: keep-alive',
  'A: b',
  ' folded',
  'A:b:c',
  'a: \x80\xff',
)
const body = fc.constantFrom(
  '',
  'abc',
  '3\r\nabc\r\n0\r\n\r\n',
  '3;x\r\nabc\r\n0\r\nt: u\r\n\r\n',
  '03\r\nabc\r\n0\r\n\r\n',
  '3 \r\nabc\r\n0\r\n\r\n',
  '0x3\r\nabc\r\n0\r\n\r\n',
  ';3\r\nabc\r\n0\r\n\r\n',
  '3\nabc\r\n0\r\n\r\n',
  '3\r\nabc\n0\r\n\r\n',
  '3;a\nb\r\nabc\r\n0\r\n\r\n',
  '3;\x01\r\nabc\r\n0\r\n\r\n',
  '3;a="b\rc"\r\nabc\r\n0\r\n\r\n',
  '3\r\nabcd\r\n0\r\n\r\n',
  '3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n',
  '3\r\nabc\r\n0\r\nt : u\r\n\r\n',
  '10000000000000003\r\nabc\r\n0\r\n\r\n',
  '3\r\nabc\r\n0\r\n\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n',
)
const end = fc.constantFrom('\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r')
const request = fc
  .tuple(line, fc.array(field, { maxLength: 3 }), end, body)
  .map(([first, fields, lineEnd, content]) => [first, 'Host: x', ...fields, '', content].join(lineEnd))

/** A place, how many characters go there, and what comes instead. Only bytes of UTF-8 in a target are taken here and not there. */
const slip = fc.tuple(
  fc.nat(),
  fc.nat(2),
  fc.constantFrom(
    '',
    '\0',
    '\t',
    ' ',
    '\r',
    '\n',
    '\r\n',
    '\x0b',
    '\x0c',
    '\x7f',
    ';',
    ',',
    ':',
    '0',
    '3',
    'x',
    '-',
    '"',
  ),
)

function slipped(text: string, [place, gone, instead]: [number, number, string]): string {
  const at = place % (text.length + 1)
  return text.slice(0, at) + instead + text.slice(at + gone)
}

/** Some of the requests have a slip somewhere. */
const sent = fc
  .tuple(fc.array(request, { minLength: 1, maxLength: 3 }), fc.option(slip))
  .map(([requests, where]) => (where ? slipped(requests.join(''), where) : requests.join('')))

/** Where the target names a host, that is the host here; Node leaves it to its users. */
function compared(understood: Understood): Understood {
  const { url, headers } = understood
  return url.startsWith('/') ? understood : { ...understood, headers: { ...headers, host: 'that of the target' } }
}

/** On the busiest machine. */
const NODE_MS = 30_000

export async function understoodAsNodeDoes(numRuns: number): Promise<void> {
  const ours: Understood[] = []
  const theirs: Understood[] = []
  const { open } = await wireServer(async ({ method, url, headers, body: content }, reply) => {
    const bytes = await content.collect(1_000_000).catch(() => undefined)
    if (bytes) ours.push({ method, url, headers: { ...headers }, body: bytes.toString('latin1') })
    reply.send(200, '', '')
  })
  const openNode = await nodeServer(theirs)
  await fc.assert(
    fc.asyncProperty(sent, async (text) => {
      ours.length = 0
      theirs.length = 0
      const bytes = Buffer.from(`${text}GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, 'latin1')
      const [connection, other] = await Promise.all([open(), openNode()])
      for (const each of [connection, other]) each.write(bytes)
      // One that waits for a body that does not come gets no answer.
      await Promise.race([connection.closed(), delay(30)])
      const whole = () => theirs.filter(({ body: content }) => content !== undefined)
      await expect.poll(() => whole().length, { timeout: NODE_MS }).toBeGreaterThanOrEqual(ours.length)
      for (const each of [connection, other]) each.end()
      expect(whole().slice(0, ours.length).map(compared)).toEqual(ours.map(compared))
    }),
    // Where Node understands less there is nothing to wait for but time: to make the case smaller would take too long.
    { numRuns, endOnFailure: true },
  )
}
