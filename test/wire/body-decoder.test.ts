import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BodyDecoder, bodyDecoder } from '../../src/wire/body-decoder.ts'

/** What is in the body, and what is left behind it, when it comes in such pieces. */
function decoded(decoder: BodyDecoder, pieces: readonly Buffer[]): { body: string; rest: string } {
  const body: Buffer[] = []
  const rest: Buffer[] = []
  for (const piece of pieces) {
    const size = decoder.isDone ? 0 : decoder.decode(piece, (part) => body.push(part))
    rest.push(piece.subarray(size))
  }
  return { body: Buffer.concat(body).toString('latin1'), rest: Buffer.concat(rest).toString('latin1') }
}

/** The same bytes, cut at some places. */
function cut(text: string, places: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text, 'latin1')
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
}

const texts = fc.array(fc.string({ minLength: 1, maxLength: 40 }).map((text) => Buffer.from(text).toString('latin1')))
const places = fc.array(fc.nat(), { maxLength: 10 })

function chunked(contents: readonly string[], trailers = ''): string {
  const chunks = contents.map((content, i) => `${content.length.toString(16)}${i % 2 ? ';a=b' : ''}\r\n${content}\r\n`)
  return `${chunks.join('')}0\r\n${trailers}\r\n`
}

describe('a body', () => {
  it('of a known size ends there, however it is cut', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), places, (content, next, where) => {
        const body = Buffer.from(content).toString('latin1')
        const rest = Buffer.from(next).toString('latin1')
        const decoder = bodyDecoder(body.length)
        expect(decoded(decoder, cut(body + rest, where))).toEqual({ body, rest })
        expect(decoder.isDone).toBe(true)
      }),
    )
  })

  it('in chunks ends with the last one, however it is cut', () => {
    fc.assert(
      fc.property(texts, fc.string(), places, (contents, next, where) => {
        const rest = Buffer.from(next).toString('latin1')
        const decoder = bodyDecoder('chunked')
        const sent = chunked(contents, 'Content-MD5: abc\r\n')
        expect(decoded(decoder, cut(sent + rest, where))).toEqual({ body: contents.join(''), rest })
        expect([decoder.isDone, decoder.trailers['content-md5']]).toEqual([true, 'abc'])
      }),
    )
  })

  it('in chunks is not done before its last line', () => {
    fc.assert(
      fc.property(texts, fc.nat(), (contents, place) => {
        const sent = chunked(contents)
        const decoder = bodyDecoder('chunked')
        decoded(decoder, [Buffer.from(sent.slice(0, place % sent.length), 'latin1')])
        expect(decoder.isDone).toBe(false)
      }),
    )
  })

  it.each([
    ['x\r\n'],
    ['\r\n'],
    ['-1\r\na\r\n'],
    ['+1\r\na\r\n'],
    ['0x1\r\na\r\n'],
    ['1 1\r\na\r\n'],
    ['1\na\n0\n\n'],
    [';a\r\na\r\n'],
    ['1 \r\na\r\n'],
    ['1\t;a\r\na\r\n'],
    ['1;\x01\r\na\r\n'],
    ['1;\x7f\r\na\r\n'],
    ['1;a\rb\r\na\r\n'],
    [`${`1;${'x'.repeat(1000)}\r\na\r\n`.repeat(17)}`],
    ['0\r\nContent-Length: 1\r\n\r\n'],
    ['0\r\ntransfer-encoding: chunked\r\n\r\n'],
    ['0\r\nHOST: a\r\n\r\n'],
    ['1\r\nab\r\n0\r\n\r\n'],
    ['2\r\na\r\n0\r\n\r\n'],
    ['1000000000000\r\na'],
    [`1;${'x'.repeat(2000)}\r\na\r\n`],
    ['0\r\nno colon\r\n\r\n'],
    ['0\r\na: \x01\r\n\r\n'],
    [`0\r\n${`a: ${'b'.repeat(900)}\r\n`.repeat(20)}\r\n`],
    [`0\r\n${'a'.repeat(2000)}`],
  ])('%j is malformed', (text) => {
    const decoder = bodyDecoder('chunked')
    expect(() => {
      decoded(decoder, cut(text, []))
      decoded(decoder, cut('0\r\n\r\n', []))
    }).toThrow()
  })
})
