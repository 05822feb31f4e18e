/** The listing of all documents against the slow and obvious way to make it. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Client, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'
import type { Listing } from '../../support/listing.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

function idsIn(reply: Reply): unknown[] {
  expect(reply.status, reply.text).toBe(200)
  return reply.as<Listing>().rows.map(({ id }) => id)
}

function json(value: unknown): string {
  return encodeURIComponent(JSON.stringify(value))
}

/** The order of ids is that of their bytes. */
function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right))
}

describe('any range of any documents', () => {
  interface Query {
    start: string | undefined
    end: string | undefined
    descending: boolean
    inclusive: boolean
    skip: number
    limit: number | undefined
  }

  const id = fc
    .oneof(fc.string({ minLength: 1, maxLength: 3 }), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 4 }))
    .filter((text) => !text.startsWith('_') && text.isWellFormed())
  const query: fc.Arbitrary<Query> = fc.record({
    start: fc.option(id, { nil: undefined }),
    end: fc.option(id, { nil: undefined }),
    descending: fc.boolean(),
    inclusive: fc.boolean(),
    skip: fc.nat({ max: 6 }),
    limit: fc.option(fc.nat({ max: 6 }), { nil: undefined }),
  })

  function queryText({ start, end, descending, inclusive, skip, limit }: Query): string {
    const parts = [`descending=${descending}`, `inclusive_end=${inclusive}`, `skip=${skip}`]
    if (start !== undefined) parts.push(`startkey=${json(start)}`)
    if (end !== undefined) parts.push(`endkey=${json(end)}`)
    if (limit !== undefined) parts.push(`limit=${limit}`)
    return parts.join('&')
  }

  /** The slow and obvious way. */
  function model(live: string[], { start, end, descending, inclusive, skip, limit }: Query) {
    const direction = descending ? -1 : 1
    const ids = [...live].sort((left, right) => direction * byBytes(left, right))
    const before = ids.filter((one) => start !== undefined && direction * byBytes(one, start) < 0)
    const range = ids.slice(before.length).filter((one) => {
      const beyond = end === undefined ? -1 : direction * byBytes(one, end)
      return beyond < 0 || (beyond === 0 && inclusive)
    })
    return { rows: range.slice(skip, limit === undefined ? undefined : skip + limit), offset: before.length, range }
  }

  async function agree(db: TestDatabase, live: string[], queries: Query[]): Promise<void> {
    for (const one of queries) {
      const reply = await db.get(`_all_docs?${queryText(one)}`)
      const { rows, offset, range } = model(live, one)
      const listing = reply.as<Listing>()
      expect(idsIn(reply), queryText(one)).toEqual(rows)
      expect(listing.total_rows).toBe(live.length)
      const skipped = Math.min(one.skip, range.length)
      // Without a row to count up to, it may or may not say what was skipped.
      if (rows.length > 0 || skipped === 0) expect(listing.offset, queryText(one)).toBe(offset + skipped)
      else expect([offset, offset + skipped], queryText(one)).toContain(listing.offset)
    }
  }

  const documents = fc.uniqueArray(fc.tuple(id, fc.boolean()), { selector: ([text]) => text, maxLength: 25 })

  async function fill(db: TestDatabase, ids: [string, boolean][]): Promise<string[]> {
    await db.post('_bulk_docs', { docs: ids.map(([_id]) => ({ _id })) })
    const dead = ids.filter(([, deleted]) => deleted)
    await db.post('_bulk_docs', { docs: dead.map(([_id]) => ({ _id, _rev: EMPTY, _deleted: true })) })
    return ids.filter(([, deleted]) => !deleted).map(([text]) => text)
  }

  it('agrees with a model', async () => {
    await fc.assert(
      fc.asyncProperty(documents, fc.array(query, { maxLength: 8 }), async (ids, queries) => {
        const db = await client().database()
        await agree(db, await fill(db, ids), queries)
      }),
      { numRuns: 50 },
    )
  })

  it('agrees with a model on disk, for many documents', async () => {
    const { url } = await startService()
    const onDisk = new Client(url)
    const db = await onDisk.database()
    const ids = Array.from({ length: 3_000 }, (_, n): [string, boolean] => [`${(n * 7919) % 3_000}`, n % 3 === 0])
    const live = await fill(db, ids)
    const number = fc.nat({ max: 3_100 })
    const wide = fc.record({
      start: fc.option(number.map(String), { nil: undefined }),
      end: fc.option(number.map(String), { nil: undefined }),
      descending: fc.boolean(),
      inclusive: fc.boolean(),
      skip: fc.oneof(fc.nat({ max: 10 }), number),
      limit: fc.option(fc.oneof(fc.nat({ max: 10 }), number), { nil: undefined }),
    })
    await fc.assert(
      fc.asyncProperty(wide, (one) => agree(db, live, [one])),
      { numRuns: 60 },
    )
    onDisk.close()
  })
})
