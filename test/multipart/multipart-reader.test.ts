/** The multipart reader: whatever the pieces in which a body arrives, the parts are the ones that were sent. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RequestError } from '../../src/document/request-error.ts'
import {
  boundaryOf,
  dispositionFilename,
  headerParameter,
  type MultipartLimits,
  readParts,
} from '../../src/multipart/multipart-reader.ts'

interface ReadPart {
  headers: Record<string, string>
  body: Buffer
}

async function* pieces(chunks: Iterable<Buffer | string>): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield Buffer.from(chunk)
}

async function concat(source: AsyncIterable<Buffer>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(source))
}

async function parts(
  chunks: Iterable<Buffer | string>,
  boundary = 'B',
  limits?: MultipartLimits,
): Promise<{ headers: Record<string, string>; body: string }[]> {
  const read = await partsOf(pieces(chunks), boundary, limits)
  return read.map(({ headers, body }) => ({ headers, body: body.toString('latin1') }))
}

async function partsOf(source: AsyncIterable<Buffer>, boundary: string, limits?: MultipartLimits): Promise<ReadPart[]> {
  const read: ReadPart[] = []
  for await (const { headers, body } of readParts(source, boundary, limits)) {
    read.push({ headers: Object.fromEntries(headers), body: await concat(body) })
  }
  return read
}

async function refusal(reading: Promise<unknown>): Promise<RequestError> {
  const error: unknown = await reading.then(
    () => expect.unreachable('It was read without complaint.'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof RequestError)) throw error
  return error
}

const TWO_PARTS =
  '--B\r\nContent-Type: application/json\r\nX: y\r\n\r\n{"a":1}\r\n--B\r\nContent-Type: text/plain\r\n\r\nhello\r\n--B--'

const READ_OF_TWO_PARTS = [
  { headers: { 'content-type': 'application/json', x: 'y' }, body: '{"a":1}' },
  { headers: { 'content-type': 'text/plain' }, body: 'hello' },
]

describe('the parts of a body', () => {
  it('come with their headers and contents', async () => {
    expect(await parts([TWO_PARTS])).toEqual(READ_OF_TWO_PARTS)
  })

  it('are the same wherever the input is split in two', async () => {
    const bytes = Buffer.from(`preamble\r\n${TWO_PARTS}\r\nepilogue`)
    for (let at = 0; at <= bytes.length; at++) {
      expect(await parts([bytes.subarray(0, at), bytes.subarray(at)]), `split at ${at}`).toEqual(READ_OF_TWO_PARTS)
    }
  })

  it('are the same when every byte comes alone', async () => {
    expect(await parts([...TWO_PARTS])).toEqual(READ_OF_TWO_PARTS)
  })

  it('begin after the preamble and end before the epilogue', async () => {
    const body = `This is for old readers.\r\n--Bx\r\n-- B\r\n${TWO_PARTS}\r\n--B\r\nX: not a part\r\n\r\nnot read`
    expect(await parts([body])).toEqual(READ_OF_TWO_PARTS)
  })

  it('may begin with an empty line', async () => {
    expect(await parts([`\r\n${TWO_PARTS}\r\n`])).toEqual(READ_OF_TWO_PARTS)
  })

  it('may be none', async () => {
    expect(await parts(['--B--'])).toEqual([])
    expect(await parts(['\r\n--B--\r\n'])).toEqual([])
  })

  it('may have no headers and no content', async () => {
    expect(await parts(['--B\r\n\r\nabc\r\n--B\r\n\r\n\r\n--B\r\nA: b\r\n\r\n\r\n--B--'])).toEqual([
      { headers: {}, body: 'abc' },
      { headers: {}, body: '' },
      { headers: { a: 'b' }, body: '' },
    ])
  })

  it('may be nothing but headers', async () => {
    const bytes = '--B\r\nA: b\r\n\r\n--B\r\n\r\n--B \r\nC: d\r\n\r\n--B--'
    const read = [
      { headers: { a: 'b' }, body: '' },
      { headers: {}, body: '' },
      { headers: { c: 'd' }, body: '' },
    ]
    expect(await parts([bytes])).toEqual(read)
    expect(await parts([...bytes])).toEqual(read)
  })

  it('may have blanks after the boundary', async () => {
    expect(await parts(['--B \t \r\nA: b\r\n\r\nabc\r\n--B--  \r\n'])).toEqual([{ headers: { a: 'b' }, body: 'abc' }])
  })

  it('keep all that only looks like a boundary', async () => {
    const content = '\r\n--\r\n--A\r\n--Bx\r\n--B-x\r\n--B \tx\r\n-B\n--B\r\n --B--\r\r\n-\r\n--B\rx--B--\r\n'
    expect(await parts([`--B\r\n\r\n${content}\r\n--B--`])).toEqual([{ headers: {}, body: content }])
    expect(await parts([...`--B\r\n\r\n${content}\r\n--B--`])).toEqual([{ headers: {}, body: content }])
  })

  it('keep a line of a boundary and endless blanks', async () => {
    const content = `\r\n--B${' '.repeat(5_000)}`
    expect(await parts([`--B\r\n\r\n${content}\r\n--B--`])).toEqual([{ headers: {}, body: content }])
  })

  it('may be multipart bodies themselves, also with a boundary that begins as the outer one', async () => {
    const inner = TWO_PARTS.replaceAll('--B', '--BB')
    const [outer] = await parts([`--B\r\nContent-Type: multipart/related; boundary=BB\r\n\r\n${inner}\r\n--B--`])
    expect(outer?.body).toBe(inner)
    expect(await parts([outer?.body ?? ''], 'BB')).toEqual(READ_OF_TWO_PARTS)
  })

  it('can be read inside while the outer body still arrives', async () => {
    const inner = TWO_PARTS.replaceAll('--B', '--I')
    const source = pieces([...`--B\r\n\r\n${inner}\r\n--B\r\n\r\nlast\r\n--B--`])
    const read: unknown[] = []
    for await (const { body } of readParts(source, 'B')) {
      read.push(read.length === 0 ? (await partsOf(body, 'I')).length : (await concat(body)).toString())
    }
    expect(read).toEqual([2, 'last'])
  })

  it('are skipped when nobody reads them, wholly or in part', async () => {
    const body = '--B\r\nN: 1\r\n\r\nabcdef\r\n--B\r\nN: 2\r\n\r\nghijkl\r\n--B\r\nN: 3\r\n\r\nmnopqr\r\n--B--'
    const seen: unknown[] = []
    for await (const { headers, body: content } of readParts(pieces([...body]), 'B')) {
      seen.push(headers.get('n'))
      if (headers.get('n') !== '2') continue
      for await (const piece of content) {
        seen.push(piece.toString())
        break
      }
    }
    expect(seen).toEqual(['1', '2', 'g', '3'])
  })

  it('cannot be read after the next one was asked for', async () => {
    const reading = readParts(pieces([TWO_PARTS]), 'B')
    const first = await reading.next()
    await reading.next()
    await expect(async () => concat(first.value ? first.value.body : pieces([]))).rejects.toThrow('before the next one')
  })

  it('come through unharmed, whatever is in them and however they arrive', async () => {
    const boundaryLike = fc.constantFrom(
      '\r',
      '\n',
      '\r\n',
      '-',
      '--',
      '\r\n--',
      '--ab',
      '\r\n--a',
      '\r\n--abx',
      ' ',
      'ab',
    )
    const content = fc
      .array(fc.oneof(boundaryLike, fc.string({ unit: 'binary-ascii', maxLength: 4 })), { maxLength: 12 })
      .map((texts) => texts.join(''))
      // A content that holds the boundary on a line of its own cannot be sent with it.
      .filter((text) => !/\r\n--ab([ \t]*\r\n|--)/.test(`\r\n${text}\r\n`))
    const cuts = fc.infiniteStream(fc.integer({ min: 1, max: 9 }))
    await fc.assert(
      fc.asyncProperty(fc.array(content, { maxLength: 5 }), cuts, async (contents, sizes) => {
        const body = Buffer.from(
          `${contents.map((text) => `--ab\r\nA: b\r\n\r\n${text}\r\n`).join('')}--ab--`,
          'latin1',
        )
        const chunks: Buffer[] = []
        for (let at = 0; at < body.length; ) {
          const size = sizes.next().value
          chunks.push(body.subarray(at, at + size))
          at += size
        }
        expect(await parts(chunks, 'ab')).toEqual(contents.map((text) => ({ headers: { a: 'b' }, body: text })))
      }),
      { numRuns: 500 },
    )
  })
})

describe('the headers of a part', () => {
  async function headersOf(block: string | Buffer): Promise<Record<string, string> | undefined> {
    const [part] = await parts([
      Buffer.concat([Buffer.from('--B\r\n'), Buffer.from(block), Buffer.from('\r\n\r\n\r\n--B--')]),
    ])
    return part?.headers
  }

  it('have lower-case names and values without blanks around them', async () => {
    expect(await headersOf('Content-TYPE:  text/plain \t\r\nx:y:z')).toEqual({ 'content-type': 'text/plain', x: 'y:z' })
  })

  it('may continue in the next line', async () => {
    expect(await headersOf('A: b;\r\n  c=d;\r\n\te\r\nF: g')).toEqual({ a: 'b; c=d; e', f: 'g' })
  })

  it('are joined when they are repeated', async () => {
    expect(await headersOf('A: b\r\na: c')).toEqual({ a: 'b, c' })
  })

  it('are UTF-8, or Latin-1 when they are not', async () => {
    expect(await headersOf('A: filename="é☃"')).toEqual({ a: 'filename="é☃"' })
    expect(await headersOf(Buffer.from('A: é', 'latin1'))).toEqual({ a: 'é' })
  })

  it.each(['nonsense', ': no name', 'A: b\r\nnonsense', 'A b: c', '--B--'])(
    'are refused when they are %j',
    async (block) => {
      const error = await refusal(headersOf(block))
      expect([error.kind, error.error]).toEqual(['invalid', 'bad_request'])
    },
  )
})

describe('a body that cannot be read', () => {
  it('is refused wherever it ends too early', async () => {
    for (let length = 0; length < TWO_PARTS.length; length++) {
      const error = await refusal(parts([TWO_PARTS.slice(0, length)]))
      expect([error.kind, error.error, error.reason], `${length} bytes`).toEqual([
        'invalid',
        'bad_request',
        'The multipart body ends before its closing boundary.',
      ])
    }
  })

  it('is refused by the reader of the part that ends too early', async () => {
    const reading = readParts(pieces(['--B\r\n\r\nabc', 'def']), 'B')
    const { value } = await reading.next()
    const error = await refusal(concat(value ? value.body : pieces([])))
    expect(error.reason).toBe('The multipart body ends before its closing boundary.')
  })

  it('is refused when it has more parts than the limit', async () => {
    const limits = { headerBytes: 100, parts: 2 }
    expect(await parts([TWO_PARTS], 'B', limits)).toEqual(READ_OF_TWO_PARTS)
    const error = await refusal(parts([`--B\r\n\r\n1\r\n${TWO_PARTS}`], 'B', limits))
    expect([error.kind, error.reason]).toEqual(['invalid', 'The multipart body has more than 2 parts.'])
  })

  it('is refused when it has more than ten thousand parts', async () => {
    const body = (count: number) => [`${'--B\r\n\r\n\r\n'.repeat(count)}--B--`]
    expect(await parts(body(10_000))).toHaveLength(10_000)
    await expect(parts(body(10_001))).rejects.toThrow('more than 10000 parts')
  })

  it('is refused when the headers of a part are over the limit, before they are all there', async () => {
    const limits = { headerBytes: 100, parts: 2 }
    const body = (length: number) => [`--B\r\nA: ${'x'.repeat(length)}`, '\r\n\r\nabc\r\n--B--']
    expect(await parts(body(95), 'B', limits)).toHaveLength(1)
    const error = await refusal(parts(body(96), 'B', limits))
    expect([error.kind, error.error]).toEqual(['invalid', 'bad_request'])
    expect(error.reason).toBe('The headers of a part of the multipart body are longer than 100 bytes.')
    const endless = (async function* () {
      yield Buffer.from('--B\r\nA: ')
      for (;;) yield Buffer.from('x')
    })()
    await expect(partsOf(endless, 'B')).rejects.toThrow('longer than 16384 bytes')
  })

  it('passes on the error of its source', async () => {
    const source = (async function* () {
      yield Buffer.from('--B\r\n\r\nabc')
      throw new Error('The client went away.')
    })()
    await expect(partsOf(source, 'B')).rejects.toThrow('The client went away.')
  })
})

describe('the source', () => {
  const PIECE = randomBytes(64 * 1024)

  it('is asked for more only when the reader wants more', async () => {
    let given = 0
    const source = (async function* () {
      yield Buffer.from('--B\r\n\r\n')
      for (;;) {
        given++
        yield PIECE
      }
    })()
    const { value: part } = await readParts(source, 'B').next()
    expect(given).toBe(0)
    let read = 0
    for await (const _ of part?.body ?? []) {
      read++
      expect(given).toBeLessThanOrEqual(read + 1)
      if (read === 50) break
    }
    expect(given).toBeLessThanOrEqual(51)
  })

  it('is not gathered: a part of a gibibyte needs next to no memory', async () => {
    const count = 16_384
    const source = (async function* () {
      yield Buffer.from('--B\r\n\r\n')
      for (let piece = 0; piece < count; piece++) yield PIECE
      yield Buffer.from('\r\n--B--')
    })()
    const before = process.memoryUsage().rss
    let size = 0
    let peak = 0
    for await (const { body } of readParts(source, 'B')) {
      for await (const piece of body) {
        size += piece.length
        if (size % (1 << 24) < PIECE.length) peak = Math.max(peak, process.memoryUsage().rss)
      }
    }
    expect(size).toBe(count * PIECE.length)
    expect(peak - before).toBeLessThan(256 * 1024 * 1024)
  }, 30_000)

  it('is read to its end, so that the connection can be used again', async () => {
    let isOver = false
    const source = (async function* () {
      yield Buffer.from(`${TWO_PARTS}\r\nepilogue`)
      yield Buffer.from('more epilogue')
      isOver = true
    })()
    await partsOf(source, 'B')
    expect(isOver).toBe(true)
  })

  it('is released when the reader stops early', async () => {
    let isReleased = false
    const source = (async function* () {
      try {
        for (;;) yield Buffer.from(TWO_PARTS)
      } finally {
        isReleased = true
      }
    })()
    for await (const _ of readParts(source, 'B')) break
    expect(isReleased).toBe(true)
  })
})

describe('the boundary in a Content-Type', () => {
  it.each([
    ['multipart/related; boundary=abc', 'abc'],
    ['multipart/related;boundary="abc"', 'abc'],
    ['multipart/related; type="x; boundary=no"; BOUNDARY="a b\\"c:=?"', 'a b"c:=?'],
    ['multipart/related; boundary=abc; charset=utf-8', 'abc'],
    ['multipart/related;  boundary = abc ', 'abc'],
    ['multipart/related', undefined],
    ['multipart/related; boundary=', undefined],
    ['multipart/related; boundary=""', undefined],
    ['multipart/related; xboundary=abc', undefined],
    [`multipart/related; boundary=${'x'.repeat(201)}`, undefined],
  ])('of %s is %s', (contentType, boundary) => {
    expect(boundaryOf(contentType)).toBe(boundary)
  })
})

describe('the file name in a Content-Disposition', () => {
  it.each([
    ['attachment; filename="a.txt"', 'a.txt'],
    ['attachment; filename=a.txt', 'a.txt'],
    ['form-data; name="_attachments"; FileName="a; b.txt"', 'a; b.txt'],
    ['attachment; filename="say \\"hello\\".txt"', 'say "hello".txt'],
    ['attachment; filename="back\\\\slash"', 'back\\slash'],
    ['attachment; filename="C:\\folder\\a.txt"', 'C:\\folder\\a.txt'],
    ['attachment; filename="é☃.txt"', 'é☃.txt'],
    ["attachment; filename*=UTF-8''a%20%E2%98%83.txt", 'a ☃.txt'],
    ["attachment; filename=\"plain\"; filename*=utf-8'en'it's%0D%0A", "it's\r\n"],
    ['attachment; filename="plain"; filename*=UTF-8\'\'%E2%98', 'plain'],
    ['attachment; filename="plain"; filename*=latin9\'\'x', 'plain'],
    ['attachment; filename=""', ''],
    ['attachment', undefined],
    ['form-data; name="filename"', undefined],
  ])('of %s is %s', (header, filename) => {
    expect(dispositionFilename(header)).toBe(filename)
  })

  it('stands beside the name of the field', () => {
    expect(headerParameter('form-data; name="_attachments"; filename="x"', 'name')).toBe('_attachments')
  })
})
