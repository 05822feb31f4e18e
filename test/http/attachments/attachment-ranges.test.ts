/** Parts of attachments, by the Range header. Compressed ones behave as others do: a range is one of their content. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { attach, boundaryOfReply, md5, OCTETS, partsOfReply } from '../../support/attachments.ts'
import { expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const DIGITS = '0123456789'

async function digits(type: string): Promise<TestDatabase> {
  const db = await client().database()
  await attach(db, 'doc/a', DIGITS, type)
  return db
}

describe.each([
  ['stored as it is', OCTETS],
  ['stored compressed', 'text/plain'],
])('an attachment %s', (_, type) => {
  it('announces ranges', async () => {
    const db = await digits(type)
    expect((await db.get('doc/a')).headers['accept-ranges']).toBe('bytes')
    expect((await db.head('doc/a')).headers['accept-ranges']).toBe('bytes')
  })

  it.each([
    ['bytes=0-3', 0, 3],
    ['bytes=0-0', 0, 0],
    ['bytes=2-5', 2, 5],
    ['bytes=9-9', 9, 9],
    ['bytes=0-9', 0, 9],
    ['bytes=5-100', 5, 9],
    ['bytes=5-', 5, 9],
    ['bytes=9-', 9, 9],
    ['bytes=-3', 7, 9],
    ['bytes=-10', 0, 9],
    ['bytes=-100', 0, 9],
    ['bytes=3-99999999999999999999', 3, 9],
  ])('returns one range for %s', async (range, first, last) => {
    const db = await digits(type)
    const reply = await db.get('doc/a', { Range: range })
    expect([reply.status, reply.text]).toEqual([206, DIGITS.slice(first, last + 1)])
    expect(reply.headers).toMatchObject({
      'content-range': `bytes ${first}-${last}/10`,
      'content-length': String(last + 1 - first),
      'content-type': type,
      'cache-control': 'must-revalidate',
      etag: `"${md5(DIGITS)}"`,
    })
    expect(reply.headers['content-md5']).toBeUndefined()
    expect(reply.headers['content-encoding']).toBeUndefined()
  })

  it.each(['bytes=10-', 'bytes=10-12', 'bytes=20-30', 'bytes=5-3', 'bytes=0-1,20-30'])(
    'has nothing for %s',
    async (range) => {
      const db = await digits(type)
      const reply = await db.get('doc/a', { Range: range })
      expectRefusal(reply, 416, 'requested_range_not_satisfiable', 'Requested range not satisfiable')
    },
  )

  it.each([
    'bytes=0-',
    'bytes=0-,3-4',
    'bytes=3-4,0-',
    'bytes=',
    'bytes',
    'bytes=a-b',
    'bytes=1',
    'bytes=-',
    'bytes=1-2-3',
    'bytes=--1',
    'bytes=1-2;3-4',
    'lines=1-2',
    '1-2',
    'bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8,9-9',
    'bytes=0x1-2',
    'bytes=1.5-3',
  ])('returns the whole content for %s', async (range) => {
    const db = await digits(type)
    const reply = await db.get('doc/a', { Range: range })
    expect([reply.status, reply.text]).toEqual([200, DIGITS])
    expect(reply.headers['content-range']).toBeUndefined()
    expect(reply.headers['content-length']).toBe('10')
  })

  it('returns several ranges in the requested order', async () => {
    const db = await digits(type)
    const reply = await db.get('doc/a', { Range: 'bytes=8-,0-2,1-1,-2' })
    expect(reply.status).toBe(206)
    expect(reply.headers['content-length']).toBeUndefined()
    expect(reply.headers['transfer-encoding']).toBe('chunked')
    expect(reply.headers['content-md5']).toBeUndefined()
    expect(reply.headers.etag).toBe(`"${md5(DIGITS)}"`)
    const boundary = boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/byteranges')
    const part = (range: string, content: string) =>
      `\r\nContent-Type: ${type}\r\nContent-Range: bytes ${range}/10\r\n\r\n${content}\r\n--${boundary}`
    const parts = [part('8-9', '89'), part('0-2', '012'), part('1-1', '1'), part('8-9', '89')]
    expect(reply.text).toBe(`--${boundary}${parts.join('')}--`)
  })

  it('returns up to nine ranges', async () => {
    const db = await digits(type)
    const ranges = Array.from({ length: 9 }, (_, n) => `${n}-${n}`)
    const reply = await db.get('doc/a', { Range: `bytes=${ranges.join(',')}` })
    expect(reply.status).toBe(206)
    const boundary = boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/byteranges')
    expect(partsOfReply(reply, boundary).map(({ body }) => body.toString())).toEqual([...DIGITS.slice(0, 9)])
  })

  it('accepts blanks in the list', async () => {
    const db = await digits(type)
    const reply = await db.get('doc/a', { Range: 'bytes=0-1, 4-5' })
    expect(reply.status).toBe(206)
    const boundary = boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/byteranges')
    expect(partsOfReply(reply, boundary).map(({ body }) => body.toString())).toEqual(['01', '45'])
  })

  it('answers HEAD for a range', async () => {
    const db = await digits(type)
    const reply = await db.head('doc/a', { Range: 'bytes=2-5' })
    expect([reply.status, reply.body.length]).toEqual([206, 0])
    expect(reply.headers).toMatchObject({ 'content-range': 'bytes 2-5/10', 'content-length': '4' })
  })

  it('answers 304 to a client that has it', async () => {
    const db = await digits(type)
    const reply = await db.get('doc/a', { Range: 'bytes=2-5', 'If-None-Match': `"${md5(DIGITS)}"` })
    expect([reply.status, reply.body.length]).toEqual([304, 0])
  })

  it('ignores If-Range', async () => {
    const db = await digits(type)
    const reply = await db.get('doc/a', { Range: 'bytes=2-5', 'If-Range': '"another"' })
    expect([reply.status, reply.text]).toEqual([206, '2345'])
  })

  it('returns ranges of the named revision', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'abcdefgh', type)
    await attach(db, `doc/a?rev=${first}`, DIGITS, type)
    expect((await db.get(`doc/a?rev=${first}`, { Range: 'bytes=2-3' })).text).toBe('cd')
    expect((await db.get('doc/a', { Range: 'bytes=2-3' })).text).toBe('23')
  })

  it('has no range when it is empty', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', '', type)
    for (const range of ['bytes=0-0', 'bytes=1-']) {
      expect((await db.get('doc/a', { Range: range })).status).toBe(416)
    }
    expect((await db.get('doc/a', { Range: 'bytes=0-' })).status).toBe(200)
  })

  it('returns any range of a large content', async () => {
    const db = await client().database()
    const content = randomBytes(1_000_003)
    await attach(db, 'doc/a', content, type)
    const position = fc.oneof(
      fc.nat({ max: content.length - 1 }),
      fc.nat({ max: 15 }).map((block) => block * 65_536),
      fc.nat({ max: 15 }).map((block) => Math.max(0, block * 65_536 - 1)),
      fc.constant(content.length - 1),
    )
    await fc.assert(
      fc.asyncProperty(position, position, async (one, other) => {
        const [first, last] = one < other ? [one, other] : [other, one]
        const reply = await db.get('doc/a', { Range: `bytes=${first}-${last}` })
        expect(reply.headers['content-range']).toBe(`bytes ${first}-${last}/${content.length}`)
        expect(reply.body.equals(content.subarray(first, last + 1))).toBe(true)
      }),
      { numRuns: 40 },
    )
  })
})

describe('a range of a compressed attachment', () => {
  it('is one of its content, even for a client that takes gzip', async () => {
    const db = await digits('text/plain')
    const reply = await db.get('doc/a', { Range: 'bytes=2-5', 'Accept-Encoding': 'gzip' })
    expect([reply.status, reply.text]).toEqual([206, '2345'])
    expect(reply.headers['content-encoding']).toBeUndefined()
    expect(reply.headers['content-range']).toBe('bytes 2-5/10')
  })
})
