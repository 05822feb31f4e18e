/** Stretches of deleted documents: listings pass over them in a few steps, and miss nothing on the way. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { type AllDocumentsQuery, listRange } from '../../src/database/listing/all-documents.ts'
import { textsOf } from '../../src/views/query/row-query.ts'
import { memoryDatabase, put, replicated, written } from './test-database.ts'

const ALL: AllDocumentsQuery = {
  inclusiveEnd: true,
  descending: false,
  skip: 0,
  limit: Number.POSITIVE_INFINITY,
  documents: undefined,
}

async function idsOf(database: Database, asked: Partial<AllDocumentsQuery>): Promise<string[]> {
  using view = database.lastingView()
  const ids: string[] = []
  for await (const block of (await listRange(database, view, { ...ALL, ...asked })).rows()) {
    for (const text of await textsOf(block)) ids.push(JSON.parse(text).id)
  }
  return ids
}

/** What is asked for of documents: nothing, their bodies, their attachments too. */
function waysOf(database: Database): AllDocumentsQuery['documents'][] {
  const plain = { conflicts: false, contents: undefined, encodingInfo: false }
  return [undefined, plain, { ...plain, contents: database.attachments }]
}

function tombstone(id: string) {
  return replicated(id, { start: 1, hashes: ['dead'] }, {}, true)
}

describe('a stretch of tombstones', () => {
  it('costs a few steps, wherever it is and whatever is requested', async () => {
    const { database, engine } = await memoryDatabase()
    const id = (n: number) => `d${String(n).padStart(6, '0')}`
    const living = new Set([9_000, 9_001, 25_000].map(id))
    await written(
      database.write(
        Array.from({ length: 30_000 }, (_, n) => (living.has(id(n)) ? put(id(n), {}) : tombstone(id(n)))).slice(
          0,
          15_000,
        ),
      ),
    )
    await written(
      database.write(
        Array.from({ length: 30_000 }, (_, n) => (living.has(id(n)) ? put(id(n), {}) : tombstone(id(n)))).slice(15_000),
      ),
    )
    const steps = async (asked: Partial<AllDocumentsQuery>, expected: readonly number[]) => {
      const before = engine.roundTrips.count
      expect(await idsOf(database, asked)).toEqual(expected.map(id))
      expect(engine.roundTrips.count - before).toBeLessThan(60)
    }
    for (const documents of waysOf(database)) {
      await steps({ documents, limit: 1 }, [9_000])
      await steps({ documents, limit: 3 }, [9_000, 9_001, 25_000])
      await steps({ documents }, [9_000, 9_001, 25_000])
      await steps({ documents, descending: true, limit: 1 }, [25_000])
      await steps({ documents, descending: true }, [25_000, 9_001, 9_000])
      await steps({ documents, start: id(9_002), limit: 1 }, [25_000])
      await steps({ documents, start: id(100), end: id(8_000) }, [])
      await steps({ documents, start: id(24_000), end: id(10_000), descending: true }, [])
      await steps({ documents, start: id(24_000), descending: true, limit: 1 }, [9_001])
      await steps({ documents, skip: 2, limit: 5 }, [25_000])
      await steps({ documents, skip: 2, limit: 5, descending: true }, [9_000])
      await steps({ documents, within: { first: id(20_000), last: id(26_000) } }, [25_000])
      await steps({ documents, within: { first: id(26_000), last: id(28_000) } }, [])
    }
  })

  it('hides nothing: listings have all live documents, in any pattern', async () => {
    // Long ones are cut in the store, and lie there in another order.
    const long = 'l'.repeat(1_970)
    const idOf = (n: number) => (n % 7 === 3 ? `${long}${'x'.repeat(n % 40)}${n}` : `${String(n).padStart(4, '0')}`)
    const run = fc.record({ count: fc.integer({ min: 1, max: 60 }), isLive: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(
        fc.array(run, { maxLength: 12 }),
        fc.record({
          descending: fc.boolean(),
          skip: fc.constantFrom(0, 0, 1, 20),
          limit: fc.constantFrom(1, 2, 17, Number.POSITIVE_INFINITY),
          bounds: fc.tuple(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 400 })),
          isBound: fc.boolean(),
        }),
        async (runs, { descending, skip, limit, bounds, isBound }) => {
          const { database } = await memoryDatabase()
          const states = runs.flatMap(({ count, isLive }) => Array.from({ length: count }, () => isLive))
          await written(database.write(states.map((isLive, n) => (isLive ? put(idOf(n), {}) : tombstone(idOf(n))))))
          const range = isBound ? { start: idOf(bounds[0]), end: idOf(bounds[1]) } : {}
          for (const documents of waysOf(database)) {
            const all = await idsOf(database, { documents })
            expect(new Set(all)).toEqual(new Set(states.flatMap((isLive, n) => (isLive ? [idOf(n)] : []))))
            const ordered = descending ? all.toReversed() : all
            const inRange = ordered.filter((id) => isWithin(id, range, descending))
            const asked = await idsOf(database, { ...range, documents, descending, skip, limit })
            expect(asked).toEqual(inRange.slice(skip, skip + limit))
          }
        },
      ),
      { numRuns: 60 },
    )
  })
})

function isWithin(id: string, { start, end }: { start?: string; end?: string }, descending: boolean): boolean {
  const [low, high] = descending ? [end, start] : [start, end]
  const compare = (other: string) => Buffer.compare(Buffer.from(id), Buffer.from(other))
  return (low === undefined || compare(low) >= 0) && (high === undefined || compare(high) <= 0)
}
