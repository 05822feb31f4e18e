/**
 * Several clients write and read the same few documents in every way that the interface has, while a feed follows. What
 * each of them saw of a document must fit into one order; then every way to read must return the same; and the feed must have
 * sent everything once.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { Client, TestDatabase } from '../support/client.ts'
import { type Change, FeedClient } from '../support/feed.ts'
import { until } from '../support/until.ts'
import { type Leaves, leavesKey, NO_LEAVES, operationOf, visibleRevision, winnerOf } from './document-history.ts'
import { linearize } from './linearizable.ts'
import { IDS, ModelClient, Notes, type Step, type Tampering, VIEW } from './model-client.ts'

const id = fc.nat({ max: IDS.length - 1 })
const parent = fc.constantFrom('known' as const, 'known' as const, 'known' as const, 'old' as const, 'none' as const)

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('put' as const), id, parent }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), id, parent }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('attach' as const), id, parent }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('bulk' as const), ids: fc.uniqueArray(id, { minLength: 1 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('graft' as const), id }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('purge' as const), id }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('read' as const), id }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('view', 'find', 'all_docs', 'changes', 'compact'),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('secure', 'security') }) },
)

export interface ModelSize {
  readonly numRuns: number
  readonly clients: number
  readonly steps: number
  readonly tampering?: () => Tampering
}

export async function checkInterface(client: Client, { numRuns, clients, steps, tampering }: ModelSize): Promise<void> {
  const plans = fc.array(fc.array(step, { minLength: 1, maxLength: steps }), { minLength: 1, maxLength: clients })
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => runPlans(await newDatabase(client), plan, tampering?.() ?? {})),
    // A planted bug is to be found, not to be made small.
    { numRuns, endOnFailure: tampering !== undefined },
  )
}

async function newDatabase(client: Client): Promise<TestDatabase> {
  const db = await client.database()
  await db.save('_design/d', {
    views: { v: { map: 'function (doc) { emit(doc.n, doc._rev) }', reduce: '_count' } },
    options: { reduce: false },
  })
  await db.post('_index', { index: { fields: ['n'] } })
  return db
}

async function runPlans(db: TestDatabase, plans: readonly (readonly Step[])[], tampering: Tampering): Promise<void> {
  const notes = new Notes()
  const feed = await FeedClient.open(db.client, `/${db.name}/_changes?feed=continuous&style=all_docs&timeout=60000`)
  try {
    const clients = plans.map((_, i) => new ModelClient(db, i, notes, tampering))
    await Promise.all(clients.map((each, i) => each.run(plans[i]!)))
    const last = new ModelClient(db, plans.length, notes, {})
    for (const each of IDS) await last.readLeaves(each)
    const states = new Map(IDS.map((each) => [each, stateOf(each, notes)]))
    checkSecurity(notes)
    await compareReadings(db, states, notes, tampering)
    await compareFeed(db, feed, states, notes, tampering)
  } finally {
    feed.leave()
  }
}

/** The leaves of a document in the end; throws where what was seen fits into no order. */
function stateOf(document: string, notes: Notes): Leaves {
  const noted = notes.documents.get(document) ?? []
  const state = linearize(noted.map(operationOf), NO_LEAVES, leavesKey)
  if (state !== undefined) return state
  const lines = noted.map(({ startedAt, endedAt, told }) => `${startedAt.toFixed(2)}–${endedAt.toFixed(2)} ${told}`)
  throw new Error(`What clients saw of ${document} fits into no order:\n${lines.sort().join('\n')}`)
}

function checkSecurity({ security }: Notes): void {
  const operations = security.map(({ wrote, read, ...when }) => ({
    ...when,
    told: `${wrote} ${read}`,
    apply: (state: number) => wrote ?? (read === state ? state : undefined),
  }))
  expect(linearize(operations, 0, String), JSON.stringify(security)).toBeDefined()
}

async function compareReadings(
  db: TestDatabase,
  states: ReadonlyMap<string, Leaves>,
  notes: Notes,
  tampering: Tampering,
): Promise<void> {
  const visible = [...states].flatMap(([document, leaves]) => {
    const rev = visibleRevision(leaves)
    return rev === undefined ? [] : [{ id: document, rev, content: notes.contents.get(rev)! }]
  })
  const rows = (await db.get('_all_docs?endkey="_"')).as<{ rows: { id: string; value: { rev: string } }[] }>().rows
  // Names with an underscore come first in the order of documents.
  const listed = (await db.get('_all_docs?startkey="a"')).as<{ rows: { id: string; value: { rev: string } }[] }>().rows
  expect(rows.every(({ id: each }) => each.startsWith('_'))).toBe(true)
  expect(listed.map(({ id: each, value }) => [each, value.rev])).toEqual(
    visible.map(({ id: each, rev }) => [each, rev]),
  )

  const byNumber = visible.toSorted((a, b) => a.content.n - b.content.n || (a.id < b.id ? -1 : 1))
  const view = (await db.get(VIEW)).as<{ rows: { id: string; key: number; value: string }[] }>().rows
  expect(
    view.filter(({ id: each }) => IDS.includes(each)).map(({ id: each, key, value }) => [each, key, value]),
  ).toEqual(byNumber.map(({ id: each, rev, content }) => [each, content.n, rev]))
  const reduced = (await db.get(`${VIEW}?reduce=true`)).as<{ rows: { value: number }[] }>().rows
  const count = reduced[0]?.value ?? 0
  expect(tampering.count?.(count) ?? count).toBe(visible.length)

  const found = (await db.post('_find', { selector: { n: { $gt: 0 } }, sort: ['n'] })).as<{
    docs: { _id: string; n: number }[]
  }>()
  expect(found.docs.map(({ _id, n }) => [_id, n])).toEqual(byNumber.map(({ id: each, content }) => [each, content.n]))

  for (const { id: each, content } of visible) {
    const reply = await db.get(`${each}/file`)
    expect([reply.status, reply.status === 200 ? reply.text : undefined], each).toEqual(
      content.attachment === undefined ? [404, undefined] : [200, content.attachment],
    )
  }
  const { doc_count, doc_del_count } = await db.info()
  const designDocuments = 2
  const known = [...states.values()].filter(({ size }) => size > 0).length
  expect([doc_count, doc_del_count]).toEqual([visible.length + designDocuments, known - visible.length])
}

/** The feed sent each change once, in order, and of each document the last one. */
async function compareFeed(
  db: TestDatabase,
  feed: FeedClient,
  states: ReadonlyMap<string, Leaves>,
  notes: Notes,
  tampering: Tampering,
): Promise<void> {
  const { results } = (await db.get('_changes?style=all_docs')).as<{ results: Change[] }>()
  const lastSequence = Math.max(...results.map(({ seq }) => seq))
  await until(() => feed.state !== 'open' || feed.changes.some(({ seq }) => seq >= lastSequence))
  const told = feed.changes.flatMap((change) => (tampering.change ? (tampering.change(change) ?? []) : [change]))
  const sequences = told.map(({ seq }) => seq)
  expect(sequences).toEqual([...new Set(sequences)].sort((a, b) => a - b))
  for (const [document, leaves] of states) {
    const revisions = (changes: readonly Change[]) =>
      changes.findLast((each) => each.id === document)?.changes.map(({ rev }) => rev)
    const expected = leaves.size === 0 ? undefined : [...leaves.keys()].sort()
    expect(revisions(results)?.sort(), document).toEqual(expected)
    // A document that was purged is not told of again.
    if (expected) expect(revisions(told)?.sort(), `feed: ${document}`).toEqual(expected)
    expect(results.find((each) => each.id === document)?.changes[0]?.rev).toBe(winnerOf(leaves))
  }
  for (const { id: each, changes } of told) {
    if (IDS.includes(each)) for (const { rev } of changes) expect(notes.contents.has(rev), `${each} ${rev}`).toBe(true)
  }
}
