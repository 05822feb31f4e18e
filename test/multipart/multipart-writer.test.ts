/** The multipart writer, byte for byte, and what the reader makes of what it wrote. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dispositionFilename, readParts } from '../../src/multipart/multipart-reader.ts'
import {
  bulkGetBody,
  byteRangesBody,
  type MultipartAttachment,
  type MultipartChunks,
  type MultipartSource,
  newBoundary,
  openRevisionsBody,
  type RevisionPart,
  relatedBody,
  relatedLength,
} from '../../src/multipart/multipart-writer.ts'

async function bytesOf(chunks: MultipartChunks): Promise<Buffer> {
  return Buffer.concat((await Array.fromAsync(chunks)).map((chunk) => Buffer.from(chunk)))
}

async function textOf(chunks: MultipartChunks): Promise<string> {
  return (await bytesOf(chunks)).toString()
}

function attachment(
  name: string,
  contentType: string,
  content: string | Buffer,
  encoding?: 'gzip',
): MultipartAttachment {
  const bytes = Buffer.from(content)
  return {
    name,
    contentType,
    length: bytes.length,
    encoding,
    async *content() {
      for (let at = 0; at < bytes.length; at += 3) yield bytes.subarray(at, at + 3)
    },
  }
}

function source(json: string, ...attachments: MultipartAttachment[]): MultipartSource {
  return { json: Buffer.from(json), attachments }
}

function found(id: string, rev: string, of: MultipartSource): RevisionPart {
  return { kind: 'document', id, rev, source: of }
}

const WITH_CONTENT = source(
  '{"_id":"d"}',
  attachment('a.txt', 'text/plain', 'packed', 'gzip'),
  attachment('b.bin', 'application/octet-stream', 'plain'),
)

const RELATED =
  '--I\r\nContent-Type: application/json\r\n\r\n{"_id":"d"}\r\n--I' +
  '\r\nContent-Disposition: attachment; filename="a.txt"\r\nContent-Type: text/plain\r\nContent-Length: 6' +
  '\r\nContent-Encoding: gzip\r\n\r\npacked\r\n--I' +
  '\r\nContent-Disposition: attachment; filename="b.bin"\r\nContent-Type: application/octet-stream' +
  '\r\nContent-Length: 5\r\n\r\nplain\r\n--I--'

describe('a document with its attachments', () => {
  it('is one part of JSON and one part for each of them', async () => {
    expect(await textOf(relatedBody(WITH_CONTENT, 'I'))).toBe(RELATED)
  })

  it('has the length that it was said to have, and gives back what it was made of', async () => {
    const contents = fc.record({
      name: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }),
      contentType: fc.constantFrom('text/plain', 'image/png; x="é"', 'a/b'),
      content: fc.uint8Array({ maxLength: 20 }),
      isPacked: fc.boolean(),
    })
    const evilNames = fc.constantFrom('a"b', 'a\\', '\\"', 'a\r\nX: y', '\n', '\u0000', 'ü"\r', "it's", '%22', '\t')
    const anyAttachment = fc.oneof(
      contents,
      fc.tuple(contents, evilNames).map(([content, name]) => ({ ...content, name })),
    )
    await fc.assert(
      fc.asyncProperty(fc.json(), fc.array(anyAttachment, { maxLength: 4 }), async (json, attachments) => {
        const written = source(
          json,
          ...attachments.map(({ name, contentType, content, isPacked }) =>
            attachment(name, contentType, Buffer.from(content), isPacked ? 'gzip' : undefined),
          ),
        )
        const boundary = newBoundary()
        const bytes = await bytesOf(relatedBody(written, boundary))
        expect(bytes.length).toBe(relatedLength(written, boundary))
        const read: unknown[] = []
        const body = (async function* () {
          yield bytes
        })()
        for await (const { headers, body: content } of readParts(body, boundary)) {
          read.push({
            name: dispositionFilename(headers.get('content-disposition') ?? ''),
            contentType: headers.get('content-type'),
            length: headers.get('content-length'),
            encoding: headers.get('content-encoding'),
            content: Buffer.concat(await Array.fromAsync(content)).toString('hex'),
          })
        }
        expect(read).toEqual([
          { contentType: 'application/json', content: Buffer.from(json).toString('hex') },
          ...attachments.map(({ name, contentType, content, isPacked }) => ({
            name,
            contentType,
            length: String(content.length),
            encoding: isPacked ? 'gzip' : undefined,
            content: Buffer.from(content).toString('hex'),
          })),
        ])
      }),
    )
  })

  it.each([
    ['say "hello"', 'filename="say \\"hello\\""'],
    ['back\\slash', 'filename="back\\\\slash"'],
    ['ü☃', 'filename="ü☃"'],
    ['a\r\nb', `filename="a%0D%0Ab"; filename*=UTF-8''a%0D%0Ab`],
    ['a\u0000é', `filename="a%00é"; filename*=UTF-8''a%00%C3%A9`],
  ])('says the name %j so that its line stays one line', async (name, parameter) => {
    const text = await textOf(relatedBody(source('{}', attachment(name, 'a/b', '')), 'I'))
    expect(text).toContain(`\r\nContent-Disposition: attachment; ${parameter}\r\nContent-Type: a/b\r\n`)
  })

  it('says a type so that its line stays one line', async () => {
    const text = await textOf(relatedBody(source('{}', attachment('a', 'a/b\r\nX: y', '')), 'I'))
    expect(text).toContain('\r\nContent-Type: a/b%0D%0AX: y\r\nContent-Length: 0\r\n\r\n\r\n--I--')
  })
})

describe('the answer to open_revs', () => {
  it('has a part for each revision, with content or without, and for each that is missing', async () => {
    const parts = [
      found('d', '1-a', source('{"_id":"d"}')),
      found('d', '1-b', WITH_CONTENT),
      { kind: 'failure', json: '{"missing":"1-c"}' } as const,
    ]
    expect(await textOf(openRevisionsBody(parts, 'O', () => 'I'))).toBe(
      '--O' +
        '\r\nContent-Type: application/json\r\n\r\n{"_id":"d"}\r\n--O' +
        `\r\nContent-Type: multipart/related; boundary="I"\r\n\r\n${RELATED}\r\n--O` +
        '\r\nContent-Type: application/json; error="true"\r\n\r\n{"missing":"1-c"}\r\n--O' +
        '--',
    )
  })

  it('is a closing boundary when there are none', async () => {
    expect(await textOf(openRevisionsBody([], 'O'))).toBe('--O--')
  })
})

describe('the answer to _bulk_get', () => {
  it('has a part for each revision, with its names when content follows, and for each failure', async () => {
    const failure = '{"id":"d","rev":"1-c","error":"not_found","reason":"missing","status":404}'
    const parts = (async function* (): AsyncGenerator<RevisionPart> {
      yield found('d', '1-a', source('{"_id":"d"}'))
      yield found('ü', '1-b', WITH_CONTENT)
      yield { kind: 'failure', json: failure }
    })()
    expect(await textOf(bulkGetBody(parts, 'B', () => 'I'))).toBe(
      '\r\n--B\r\nContent-Type: application/json\r\n\r\n{"_id":"d"}' +
        `\r\n--B\r\nX-Doc-Id: ü\r\nX-Rev-Id: 1-b\r\nContent-Type: multipart/related; boundary=I\r\n\r\n${RELATED}` +
        `\r\n--B\r\nContent-Type: application/json; error="true"\r\n\r\n${failure}` +
        '\r\n--B--\r\n',
    )
  })

  it('is nothing at all when nothing was asked for', async () => {
    expect(await textOf(bulkGetBody([], 'B'))).toBe('')
  })

  it('says an identifier so that its line stays one line', async () => {
    const text = await textOf(bulkGetBody([found('a\r\nX: y', '1-a', WITH_CONTENT)], 'B', () => 'I'))
    expect(text).toContain('\r\nX-Doc-Id: a%0D%0AX: y\r\nX-Rev-Id: 1-a\r\n')
  })
})

describe('several ranges', () => {
  it('come in the order in which they were asked for', async () => {
    const whole = Buffer.from('0123456789')
    const content = {
      contentType: 'text/plain',
      length: whole.length,
      async *content({ first, last }: { first: number; last: number }) {
        yield whole.subarray(first, last + 1)
      },
    }
    const ranges = [
      { first: 8, last: 9 },
      { first: 0, last: 2 },
      { first: 1, last: 1 },
    ]
    expect(await textOf(byteRangesBody(content, ranges, 'B'))).toBe(
      '--B' +
        '\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n--B' +
        '\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-2/10\r\n\r\n012\r\n--B' +
        '\r\nContent-Type: text/plain\r\nContent-Range: bytes 1-1/10\r\n\r\n1\r\n--B' +
        '--',
    )
  })
})

describe('a boundary', () => {
  it('is 32 hexadecimal digits, each time others', () => {
    expect(newBoundary()).toMatch(/^[0-9a-f]{32}$/)
    expect(newBoundary()).not.toBe(newBoundary())
  })
})
