/**
 * Writers change documents at random while readers of every kind follow, leave, and come back where they were. What a
 * reader was given in all is compared with what was written, and with the changes that are there in the end.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import { createService } from '../../../src/service.ts'
import { Client, type TestDatabase } from '../../support/client.ts'
import type { Change, ChangesReply } from '../../support/feed.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

interface Size {
  readonly numRuns: number
  readonly writes: number
  readonly fewestReaders?: number
  readonly readers: number
  /** How long a reader waits for changes before it leaves and comes back. */
  readonly waitMs?: number
}

const IDS = ['a', 'b', 'c', 'd', 'e', '_design/x', '_design/y']

/** What writers do: one document, several at once, or a deletion. */
const write = fc.record({
  kind: fc.constantFrom('put', 'put', 'bulk', 'delete', 'conflict'),
  ids: fc.uniqueArray(fc.constantFrom(...IDS), { minLength: 1, maxLength: 4 }),
})

const reader = fc.record({
  feed: fc.constantFrom('normal', 'longpoll', 'continuous', 'eventsource'),
  style: fc.constantFrom('main_only', 'all_docs'),
  documents: fc.boolean(),
  /** Only these documents, by one of the filters of the server. */
  filter: fc.constantFrom('', '', 'filter=_design', 'filter=_doc_ids&doc_ids=["a","b","_design/x"]'),
  limit: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
  /** It leaves after so many bytes of a reply. */
  patienceBytes: fc.integer({ min: 1, max: 2_000 }),
})
type Reader = typeof reader extends fc.Arbitrary<infer T> ? T : never

export async function followWhileWriting(size: Size): Promise<void> {
  const { numRuns, writes, fewestReaders = 1, readers, waitMs = 20 } = size
  const service = await createService({ port: 0, dir: await temporaryFolder() })
  const client = new Client(await service.listen())
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.array(write, { minLength: writes / 2, maxLength: writes }),
        fc.array(reader, { minLength: fewestReaders, maxLength: readers }),
        async (planned, following) => {
          const db = await client.database()
          const followers = following.map((each) => new Follower(db, each, waitMs))
          const half = Math.ceil(planned.length / 2)
          const writers = [planned.slice(0, half), planned.slice(half)].map((plan) => writeAll(db, plan))
          const finished = Promise.all(writers).finally(() => {
            for (const follower of followers) follower.finish()
          })
          await Promise.all([finished, ...followers.map((follower) => follower.run())])
          const { results } = (await db.get('_changes?style=all_docs')).as<ChangesReply>()
          for (const follower of followers) follower.check(results)
        },
      ),
      { numRuns, endOnFailure: true },
    )
  } finally {
    client.close()
    await service.close()
  }
}

type Write = typeof write extends fc.Arbitrary<infer T> ? T : never

let written = 0

async function writeAll(db: TestDatabase, plan: readonly Write[]): Promise<void> {
  for (const { kind, ids } of plan) {
    const [first = ''] = ids
    if (kind === 'conflict') {
      await db.replicate({ _id: first, _rev: `1-${written++}` })
      continue
    }
    const some = kind === 'bulk' ? ids : [first]
    const docs = await Promise.all(
      some.map(async (_id) => {
        const { _rev } = (await db.get(_id)).as<{ _rev?: string }>()
        return { _id, ...(_rev && { _rev }), _deleted: kind === 'delete', n: written++ }
      }),
    )
    // Two writers may meet: then one of them is refused, and nothing changes.
    await db.post('_bulk_docs', { docs })
  }
}

/** A reader that comes back where it was, until it has seen everything. */
class Follower {
  readonly #db: TestDatabase
  readonly #options: Reader
  readonly #waitMs: number
  readonly #changes: Change[] = []
  #since = 0
  #isLast = false

  constructor(db: TestDatabase, options: Reader, waitMs: number) {
    this.#db = db
    this.#options = options
    this.#waitMs = waitMs
  }

  /** Nothing will be written any more. */
  finish(): void {
    this.#isLast = true
  }

  /** Comes again and again, until there is nothing new and nothing can come. */
  async run(): Promise<void> {
    for (let isDone = false; !isDone; ) {
      const isLast = this.#isLast
      const isNothing = (await this.#visit()) === 0
      isDone = isLast && isNothing
    }
  }

  /** One request, read to its end or as long as the patience lasts; tells how many changes came. */
  async #visit(): Promise<number> {
    const { feed, style, documents, filter, limit, patienceBytes } = this.#options
    const query = [`feed=${feed}`, `style=${style}`, `since=${this.#since}`, filter, `timeout=${this.#waitMs}`]
    if (documents) query.push('include_docs=true')
    if (limit !== undefined) query.push(`limit=${limit}`)
    const leaving = new AbortController()
    const reply = await fetch(`${this.#db.url}/_changes?${query.join('&')}`, { signal: leaving.signal })
    expect(reply.status).toBe(200)
    let text = ''
    const isWhole = feed === 'normal' || feed === 'longpoll'
    try {
      for await (const piece of reply.body ?? []) {
        text += Buffer.from(piece).toString()
        if (!isWhole && text.length > patienceBytes) leaving.abort()
      }
    } catch (error) {
      expect(leaving.signal.aborted, String(error)).toBe(true)
    }
    return this.#take(text)
  }

  /** What can be known from what came: whole lines, and the last sequence where it is told. */
  #take(text: string): number {
    const { limit } = this.#options
    const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
    const changes = lines
      .map((line) => line.replace(/^data: /, '').replace(/,?\r?$/, ''))
      .filter((line) => line.startsWith('{"seq"'))
      .map((line): Change => JSON.parse(line))
    if (limit !== undefined) expect(changes.length).toBeLessThanOrEqual(limit)
    this.#changes.push(...changes)
    const told = /"last_seq":(\d+),"pending":\d+\}/.exec(text)?.[1]
    const last = Number(told ?? changes.at(-1)?.seq ?? this.#since)
    expect(last).toBeGreaterThanOrEqual(this.#since)
    this.#since = last
    // One that was cut off came too.
    return text.split('{"seq":').length - 1
  }

  check(final: readonly Change[]): void {
    const sequences = this.#changes.map(({ seq }) => seq)
    // Rising all the way, over all visits: nothing came twice, nothing out of order.
    expect(sequences).toEqual([...new Set(sequences)].sort((a, b) => a - b))
    const { filter, style, documents } = this.#options
    const wanted = final.filter(({ id }) => passes(id, filter))
    const latest = new Map(this.#changes.map((change) => [change.id, change]))
    expect([...latest.keys()].filter((id) => !passes(id, filter))).toEqual([])
    for (const { seq, id, changes, deleted } of wanted) {
      const seen = latest.get(id)
      const leaves = style === 'all_docs' ? changes : changes.slice(0, 1)
      expect({ ...seen, doc: undefined }).toEqual({
        seq,
        id,
        changes: leaves,
        ...(deleted && { deleted }),
        doc: undefined,
      })
      if (documents) expect(seen?.doc).toMatchObject({ _id: id, _rev: changes[0]?.rev })
    }
    expect(latest.size).toBe(wanted.length)
  }
}

function passes(id: string, filter: string): boolean {
  if (filter === '') return true
  return filter === 'filter=_design' ? id.startsWith('_design/') : ['a', 'b', '_design/x'].includes(id)
}
