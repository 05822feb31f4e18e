import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseHead, Refusal } from '../../src/wire/request.ts'

const HOST = 'Host: x'

function head(...lines: string[]) {
  return parseHead(lines.join('\r\n'))
}

function statusOf(text: string): number {
  try {
    parseHead(text)
  } catch (error) {
    if (error instanceof Refusal) return error.status
    throw error
  }
  return 200
}

describe('the head of a request', () => {
  it('returns method, target and headers', () => {
    const {
      method,
      target,
      headers,
      isHttp10: isOldVersion,
      keepsAlive,
      framing,
    } = head('PUT /a/b?c=%20d HTTP/1.1', HOST, 'X-One:  two \t', 'empty:', 'Content-Length: 12')
    expect([method, target, isOldVersion, keepsAlive, framing]).toEqual(['PUT', '/a/b?c=%20d', false, true, 12])
    expect({ ...headers }).toEqual({ host: 'x', 'x-one': 'two', empty: '', 'content-length': '12' })
  })

  it('has names that objects know as headers like others', () => {
    const { headers } = head('GET / HTTP/1.1', HOST, '__proto__: a', 'constructor: b')
    expect(Object.entries(headers)).toEqual([
      ['host', 'x'],
      ['__proto__', 'a'],
      ['constructor', 'b'],
    ])
    expect(head('GET / HTTP/1.1', HOST).headers.constructor).toBeUndefined()
  })

  it('has a target in which nothing is left to be escaped', () => {
    const utf8 = Buffer.from('/é?ü').toString('latin1')
    expect(head(`GET ${utf8} HTTP/1.1`, HOST).target).toBe('/%C3%A9?%C3%BC')
  })

  it.each([
    ['Accept', 'a, b'],
    ['Cookie', 'a; b'],
    ['Authorization', 'a'],
    ['Content-Type', 'a'],
  ])('joins several of one name: %s', (name, joined) => {
    const { headers } = head('GET / HTTP/1.1', HOST, `${name}: a`, `${name.toUpperCase()}: b`)
    expect(headers[name.toLowerCase()]).toBe(joined)
  })

  it.each([
    ['1.1', undefined, true],
    ['1.1', 'close', false],
    ['1.1', 'Keep-Alive, Close', false],
    ['1.1', 'upgrade', true],
    ['1.0', undefined, false],
    ['1.0', 'keep-alive', true],
    ['1.0', 'Foo, Keep-Alive', true],
  ])('of HTTP/%s with Connection: %s keeps it alive: %s', (version, connection, keepsAlive) => {
    const lines = connection === undefined ? [] : [`Connection: ${connection}`]
    expect(head(`GET / HTTP/${version}`, HOST, ...lines).keepsAlive).toBe(keepsAlive)
  })

  it('recognizes a chunked body', () => {
    expect(head('POST / HTTP/1.1', HOST, 'Transfer-Encoding: Chunked').framing).toBe('chunked')
    for (const encoding of ['gzip, chunked', 'identity', 'xchunked', 'gzip ; a=b', 'chunkedx, chunked']) {
      expect(head('POST / HTTP/1.1', HOST, `Transfer-Encoding: ${encoding}`).framing).toBe('unknown')
    }
  })

  it.each([
    ['', 400],
    [' ', 400],
    ['GET', 400],
    ['GET /', 400],
    ['GET / ', 400],
    ['GET  HTTP/1.1', 400],
    ['GET / HTTP/1.1', 400],
    [`get / HTTP/1.1\r\n${HOST}`, 405],
    [`NONE / HTTP/1.1\r\n${HOST}`, 405],
    [`NO"NE / HTTP/1.1\r\n${HOST}`, 400],
    ['NONE / HTTP/1.1', 400],
    [`NONE / HTTP/1.1\r\n${HOST}\r\nContent-Length: x`, 400],
    [`GET / HTTP/1.2\r\n${HOST}`, 400],
    [`GET / HTTP/2.0\r\n${HOST}`, 400],
    [`GET / http/1.1\r\n${HOST}`, 400],
    [`GET /a b HTTP/1.1\r\n${HOST}`, 400],
    [`GET /a\tb HTTP/1.1\r\n${HOST}`, 400],
    [`GET /\0 HTTP/1.1\r\n${HOST}`, 400],
    [`GET /\x7f HTTP/1.1\r\n${HOST}`, 400],
    [`GET / HTTP/1.1\n${HOST}`, 400],
    [`GET / HTTP/1.1\r${HOST}`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\n${HOST}`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\nno colon`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\n: no name`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\nblank : a`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\n folded: a`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\na: b\r\n folded`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\na: b\rc: d`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\na: b\nc: d`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\na: \x01`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\né: a`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\na: é`, 200],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 1\r\nContent-Length: 2`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 1\r\nContent-Length: 1`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 1, 1`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding:`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: chunked, chunked`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: chunked, gzip`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: chunked;a=b`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: chunked ;a=b`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: gzip chunked`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nTransfer-Encoding: chunked,`, 400],
    [`GET foo HTTP/1.1\r\n${HOST}`, 400],
    [`GET * HTTP/1.1\r\n${HOST}`, 400],
    [`OPTIONS * HTTP/1.1\r\n${HOST}`, 200],
    [`CONNECT x:80 HTTP/1.1\r\n${HOST}`, 400],
    [`GET http://x HTTP/1.1\r\n${HOST}`, 200],
    [`GET http://[::1]:80?a HTTP/1.1\r\n${HOST}`, 200],
    [`GET http:// HTTP/1.1\r\n${HOST}`, 400],
    ['GET / HTTP/1.1\r\nHost:', 200],
    ['GET / HTTP/1.1\r\nHost: [::1]:5984', 200],
    ['GET / HTTP/1.1\r\nHost: a b', 400],
    ['GET / HTTP/1.1\r\nHost: a/b', 400],
    ['GET / HTTP/1.0\r\nHost: a@b', 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: -1`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: +1`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 0x1`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length:`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 9999999999999999`, 400],
    [`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 1\r\nTransfer-Encoding: chunked`, 400],
    [`POST / HTTP/1.0\r\n${HOST}\r\nTransfer-Encoding: chunked`, 400],
    [`GET / HTTP/1.1\r\n${HOST}\r\n${'a: b\r\n'.repeat(1000)}a: b`, 400],
    ['GET / HTTP/1.0', 200],
  ])('%j is answered with %i', (text, status) => {
    expect(statusOf(text)).toBe(status)
  })

  it('is understood or refused, whatever it is', () => {
    const byte = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code))
    const piece = fc.oneof(byte, fc.constantFrom('GET / HTTP/1.1', '\r\n', HOST, 'a: b', ':', ' ', 'Content-Length: 1'))
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        expect([200, 400, 405]).toContain(statusOf(pieces.join('')))
      }),
    )
  })
})
