import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

/** What a request changed must be seen by the next one. */
async function isThere(name: string): Promise<boolean> {
  return (await client().request('GET', `/${name}`)).status === 200
}

const HOST = 'Host: x\r\n'
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
/** Where it is taken for a request of its own, it deletes the database. */
const HIDDEN = `DELETE /DB HTTP/1.1\r\n${HOST}\r\n`

describe('a request with ambiguous framing', () => {
  it.each([
    ['a length and chunks', `${HOST}Content-Length: 5\r\n${CHUNKED}`, `0\r\n\r\n${HIDDEN}`],
    ['chunks and a length', `${HOST}${CHUNKED}Content-Length: 5\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['two lengths', `${HOST}Content-Length: 0\r\nContent-Length: 5\r\n`, HIDDEN],
    ['the same length twice', `${HOST}Content-Length: 0\r\nContent-Length: 0\r\n`, HIDDEN],
    ['a list of lengths', `${HOST}Content-Length: 0, 0\r\n`, HIDDEN],
    ['an empty length', `${HOST}Content-Length:\r\n`, HIDDEN],
    ['a length with a sign', `${HOST}Content-Length: +0\r\n`, HIDDEN],
    ['a length in hexadecimal digits', `${HOST}Content-Length: 0x0\r\n`, HIDDEN],
    ['a length beyond all numbers', `${HOST}Content-Length: 18446744073709551616\r\n`, HIDDEN],
    ['chunks of chunks', `${HOST}Transfer-Encoding: chunked, chunked\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['chunks twice', `${HOST}${CHUNKED}${CHUNKED}`, `0\r\n\r\n${HIDDEN}`],
    ['chunks before another encoding', `${HOST}Transfer-Encoding: chunked, gzip\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['chunks before another line', `${HOST}${CHUNKED}Transfer-Encoding: identity\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['chunks with a parameter', `${HOST}Transfer-Encoding: chunked;a=b\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['chunks in quotes', `${HOST}Transfer-Encoding: "chunked"\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['an empty element beside chunks', `${HOST}Transfer-Encoding: ,chunked\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['an empty encoding', `${HOST}Transfer-Encoding:\r\n`, HIDDEN],
    ['a blank before the colon', `${HOST}Transfer-Encoding : chunked\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['a tab before the colon', `${HOST}Transfer-Encoding\t: chunked\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['a blank before the name', `${HOST} Transfer-Encoding: chunked\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['a folded value', `${HOST}Transfer-Encoding:\r\n chunked\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['a folded header before', `${HOST}A: b\r\n\tContent-Length: 5\r\n`, HIDDEN],
    ['a vertical tab before the value', `${HOST}Transfer-Encoding: \x0bchunked\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['a NUL behind the value', `${HOST}Transfer-Encoding: chunked\0\r\n`, `0\r\n\r\n${HIDDEN}`],
    ['a bare line feed', `${HOST}A: b\nContent-Length: 5\r\n`, HIDDEN],
    ['a bare carriage return', `${HOST}A: b\rContent-Length: 5\r\n`, HIDDEN],
    ['no host', 'A: b\r\n', HIDDEN],
    ['two hosts', `${HOST}${HOST}`, HIDDEN],
    ['a host that is none', 'Host: a/b@c\r\n', HIDDEN],
  ])('%s: refused, and nothing that follows is read', async (_, headers, rest) => {
    const { name } = await client().database()
    const sent = `PUT /new-${name} HTTP/1.1\r\n${headers}\r\n${rest.replace('DB', name)}`
    const received = await client().exchange(sent)
    expect(received).toMatch(/^HTTP\/1\.1 400 [\s\S]*Connection: close\r\nContent-Length: 0\r\n\r\n$/)
    expect([await isThere(name), await isThere(`new-${name}`)]).toEqual([true, false])
  })

  it.each(['chunked', 'gzip'])('an old request with the transfer encoding %s', async (encoding) => {
    const { name } = await client().database()
    const head = `DELETE /${name} HTTP/1.0\r\n${HOST}Transfer-Encoding: ${encoding}\r\n\r\n`
    expect(await client().exchange(`${head}0\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400 /)
    expect(await isThere(name)).toBe(true)
  })
})

describe('an unknown transfer encoding', () => {
  it.each(['gzip', 'identity', 'xchunked', 'gzip, chunked', 'x;a=b'])('%s: nothing is done', async (encoding) => {
    const { name } = await client().database()
    for (const line of [`DELETE /${name}`, `PUT /new-${name}`, `GET /${name}`]) {
      const head = `${line} HTTP/1.1\r\n${HOST}Transfer-Encoding: ${encoding}\r\nAccept: application/json\r\n\r\n`
      const received = await client().exchange(head + HIDDEN.replace('DB', name))
      expect(received).toMatch(/^HTTP\/1\.1 500 [\s\S]*Connection: close\r\n/)
      expect(received).toContain(`{"error":"unknown_transfer_encoding","reason":"${encoding}"}\n`)
      expect(received.match(/HTTP\/1\.1/g)).toHaveLength(1)
    }
    expect([await isThere(name), await isThere(`new-${name}`)]).toEqual([true, false])
  })
})

describe('chunks', () => {
  it.each([
    ['no digits', ';a=b\r\n{}\r\n0\r\n\r\n'],
    ['no digits at the end', '2\r\n{}\r\n\r\n\r\n'],
    ['a sign', '+2\r\n{}\r\n0\r\n\r\n'],
    ['another notation', '0x2\r\n{}\r\n0\r\n\r\n'],
    ['a blank before the size', ' 2\r\n{}\r\n0\r\n\r\n'],
    ['a blank behind the size', '2 \r\n{}\r\n0\r\n\r\n'],
    ['a tab behind the size', '2\t\r\n{}\r\n0\r\n\r\n'],
    ['a control character behind the size', '2\x01\r\n{}\r\n0\r\n\r\n'],
    ['a control character in an extension', '2;a=\x01\r\n{}\r\n0\r\n\r\n'],
    ['a NUL in an extension', '2;\0\r\n{}\r\n0\r\n\r\n'],
    ['a carriage return in an extension', '2;a\rb\r\n{}\r\n0\r\n\r\n'],
    ['a bare line feed behind the size', '2\n{}\r\n0\r\n\r\n'],
    ['a bare line feed in an extension', '2;a\nb\r\n{}\r\n0\r\n\r\n'],
    ['a bare line feed behind the content', '2\r\n{}\n0\r\n\r\n'],
    ['two carriage returns', '2\r\r\n{}\r\n0\r\n\r\n'],
    ['more content than they say', '2\r\n{}x\r\n0\r\n\r\n'],
    ['a size beyond all numbers', 'ffffffffffffffff2\r\n{}\r\n0\r\n\r\n'],
    ['an extension without end', `2;${'a'.repeat(2_000)}\r\n{}\r\n0\r\n\r\n`],
    ['many long extensions', `${`1;${'a'.repeat(900)}\r\n \r\n`.repeat(40)}2\r\n{}\r\n0\r\n\r\n`],
    ['a trailer with a length', '2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n'],
    ['a trailer with an encoding', '2\r\n{}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ['a trailer with a host', '2\r\n{}\r\n0\r\nHost: y\r\n\r\n'],
    ['a trailer with a password', '2\r\n{}\r\n0\r\nAuthorization: Basic eA==\r\n\r\n'],
    ['a trailer with a type', '2\r\n{}\r\n0\r\nContent-Type: text/plain\r\n\r\n'],
    ['a folded trailer', '2\r\n{}\r\n0\r\nA: b\r\n c\r\n\r\n'],
    ['a trailer with a blank before its colon', '2\r\n{}\r\n0\r\nA : b\r\n\r\n'],
  ])('with %s: refused, and nothing is stored', async (_, body) => {
    const db = await client().database()
    const received = await client().exchange(`PUT /${db.name}/doc HTTP/1.1\r\n${HOST}${CHUNKED}\r\n${body}`)
    expect(received).toMatch(/^HTTP\/1\.1 400 /)
    expect((await db.get('doc')).status).toBe(404)
  })

  it('with extensions and trailers that mean nothing here: stored', async () => {
    const db = await client().database()
    const body = '1;a=b;c="d e"\r\n{\r\n01\r\n}\r\n000\r\nX-Sum: 1\r\n\r\n'
    const head = `PUT /${db.name}/doc HTTP/1.1\r\n${HOST}Connection: close\r\n${CHUNKED}\r\n`
    expect(await client().exchange(head + body)).toMatch(/^HTTP\/1\.1 201 /)
  })
})

describe('a request target', () => {
  it.each([
    'foo',
    'DB',
    'DB/doc',
    '*',
    '?a=b',
    '#',
    'x:80',
    'ftp://x/DB',
    'http:/DB',
    'http://',
    'http:///DB',
    'http://a@b/DB',
    '\\DB',
  ])('%s is refused', async (target) => {
    const { name } = await client().database()
    const received = await client().exchange(`DELETE ${target.replace('DB', name)} HTTP/1.1\r\n${HOST}\r\n`)
    expect(received).toMatch(/^HTTP\/1\.1 400 [\s\S]*Content-Length: 0\r\n\r\n$/)
    expect(await isThere(name)).toBe(true)
  })

  it.each(['/DB', '//DB/', 'http://y/DB', 'HTTPS://y:8080/DB?a=b'])('%s is accepted', async (target) => {
    const { name } = await client().database()
    const lines = `GET ${target.replace('DB', name)} HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`
    expect(await client().exchange(lines)).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('that names a host overrides the Host header', async () => {
    const lines = 'PUT http://other:99/of-other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
    expect(await client().exchange(lines)).toContain('Location: http://other:99/of-other\r\n')
  })
})

describe('a head that is too long', () => {
  const LONG = 'x'.repeat(70_000)

  it.each([
    ['in its target', `GET /${LONG} HTTP/1.1\r\n${HOST}\r\n`, 414, 'too_long'],
    ['in a target without end', `GET /${LONG}`, 414, 'too_long'],
    ['in a header', `GET / HTTP/1.1\r\n${HOST}A: ${LONG}\r\n\r\n`, 431, 'headers_too_long'],
    ['in a header without end', `GET / HTTP/1.1\r\n${HOST}A: ${LONG}`, 431, 'headers_too_long'],
    ['in its headers', `GET / HTTP/1.1\r\n${HOST}${`A: ${'b'.repeat(900)}\r\n`.repeat(80)}`, 431, 'headers_too_long'],
  ])('%s is refused with a body', async (_, sent, status, error) => {
    const received = await client().exchange(sent)
    expect(received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*Connection: close\r\n`))
    const [head = '', body = ''] = received.split('\r\n\r\n')
    expect(JSON.parse(body)).toEqual({ error, reason: expect.stringMatching(/long/) })
    for (const line of [`Content-Length: ${body.length}`, 'Cache-Control: must-revalidate', 'Server: ']) {
      expect(head).toContain(`\r\n${line}`)
    }
    expect(head).toContain('\r\nContent-Type: text/plain;charset=utf-8')
  })

  it('and is not HTTP gets nothing more', async () => {
    expect(await client().exchange(LONG)).toMatch(/^HTTP\/1\.1 400 /)
  })
})
