/**
 * Random edits of all kinds on a database and on a naive one, in step: what they answer and what they then hold must be
 * the same, and the database must be whole, after each of them.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import { Database } from '../../src/database/database.ts'
import type { DocumentEdit } from '../../src/database/writing/edit.ts'
import type { RevisionId } from '../../src/document/ids.ts'
import type { StorageEngine } from '../../src/storage/store.ts'
import { checkContents } from './check-database.ts'
import { DatabaseContents } from './database-contents.ts'
import { fingerprint, leavesBestFirst, NaiveDatabase, type NaiveRevision } from './naive-database.ts'
import { local, put, replicated, surroundings } from './test-database.ts'

/** Two of them differ only beyond what a key of the store can hold. */
const IDS = ['a', 'b', 'é', '_design/d', 'z\0', `${'long'.repeat(600)}1`, `${'long'.repeat(600)}2`]
const LOCAL_IDS = ['_local/one', '_local/two']

/** Numbers choose among what there is when the step is taken. */
const document = fc.record({
  kind: fc.constantFrom('interactive', 'interactive', 'branching', 'replicated', 'local'),
  id: fc.nat(),
  parent: fc.constantFrom('leaf', 'leaf', 'any', 'none', 'unknown'),
  choice: fc.nat(),
  deleted: fc.integer({ min: 0, max: 3 }).map((roll) => roll === 0),
  body: fc.nat({ max: 4 }),
  length: fc.integer({ min: 1, max: 6 }),
})

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      edits: fc.array(document, { minLength: 1, maxLength: 5 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('together' as const),
      requests: fc.array(fc.array(document, { maxLength: 3 }), { minLength: 2, maxLength: 4 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('crowd' as const), first: fc.nat({ max: 100 }), deleted: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('purge' as const),
      ids: fc.array(fc.nat(), { maxLength: 3 }),
      choice: fc.nat(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('limit' as const), limit: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('compact' as const) }) },
)

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never
type DocumentChoice = typeof document extends fc.Arbitrary<infer T> ? T : never

/** Takes random steps on new databases of the engine, and compares after each. */
export async function compareWithNaive(engine: StorageEngine, numRuns: number): Promise<void> {
  let count = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      const name = `test-${++count}`
      const store = await engine.create(name)
      const pair = new Pair(await Database.create(store, surroundings()))
      for (const each of steps) {
        await pair.take(each)
        await pair.compare()
      }
      await engine.drop(name)
    }),
    { numRuns },
  )
  await engine.close()
}

/** The database and its model, always asked the same. */
class Pair {
  readonly #database: Database
  readonly #naive = new NaiveDatabase()

  constructor(database: Database) {
    this.#database = database
  }

  async take(each: Step): Promise<void> {
    switch (each.do) {
      case 'write':
        return this.#write([each.edits.map((choice) => this.#edit(choice))])
      case 'together':
        return this.#write(each.requests.map((request) => request.map((choice) => this.#edit(choice))))
      case 'crowd':
        return this.#write([this.#crowd(each.first, each.deleted)])
      case 'purge': {
        const request = new Map(each.ids.map((id) => this.#purged(id, each.choice)))
        const { purged } = await this.#database.purge(request)
        expect(purged).toEqual(this.#naive.purge(request))
        return
      }
      case 'limit':
        await this.#database.setRevisionLimit(each.limit)
        this.#naive.setRevisionLimit(each.limit)
        return
      case 'compact':
        this.#database.compact()
        await this.#database.compacted()
        this.#naive.compact()
    }
  }

  /** All at once: they may be one commit, and must be as if they were one after the other. */
  async #write(requests: readonly (readonly DocumentEdit[])[]): Promise<void> {
    const outcomes = await Promise.all(requests.map((request) => this.#database.write(request)))
    for (const [i, request] of requests.entries()) {
      const told = outcomes[i]!.map((outcome) =>
        outcome.outcome === 'written' ? outcome.revision : outcome.error.error.replace('not_found', 'missing'),
      )
      expect(told).toEqual(this.#naive.write(request))
    }
  }

  #edit({ kind, id: chosen, parent, choice, deleted, body, length }: DocumentChoice): DocumentEdit {
    if (kind === 'local') {
      const id = LOCAL_IDS[chosen % LOCAL_IDS.length]!
      const count = parent === 'unknown' ? 77 : this.#naive.locals.get(id)?.count
      return local(
        id,
        { body },
        { deleted, parent: parent === 'none' || count === undefined ? undefined : `0-${count}` },
      )
    }
    const id = IDS[chosen % IDS.length]!
    if (kind === 'replicated') {
      // Of one made-up history: a revision has the same parent and the same fate wherever it is met.
      const hashes = madeUpHistory(1 + (choice % 40))
      const known = { start: hashes.length, hashes: hashes.slice(0, length) }
      return replicated(id, known, { from: hashes[0] }, choice % 3 === 0)
    }
    const revisions = this.#naive.documents.get(id)?.revisions ?? new Map<RevisionId, NaiveRevision>()
    const named = namedParent(revisions, parent, choice)
    return put(id, { body }, { parent: named, deleted, branching: kind === 'branching' })
  }

  #crowd(first: number, deleted: boolean): DocumentEdit[] {
    return Array.from({ length: 150 }, (_, i) => {
      const id = `crowd ${first + i}`
      const revisions = this.#naive.documents.get(id)?.revisions
      return put(
        id,
        { i },
        { deleted: deleted && revisions !== undefined, parent: revisions && leavesBestFirst(revisions)[0] },
      )
    })
  }

  #purged(chosen: number, choice: number): [string, RevisionId[]] {
    const id = IDS[chosen % IDS.length]!
    const revisions = [...(this.#naive.documents.get(id)?.revisions.keys() ?? [])]
    return [id, revisions.filter((_, i) => (i + choice) % 3 !== 0)]
  }

  async compare(): Promise<void> {
    using view = this.#database.view()
    const contents = await DatabaseContents.read(view.snapshot)
    expect(await checkContents(contents, view.snapshot)).toEqual([])
    const naive = this.#naive
    const documents = [...naive.documents]
    const state = { ...contents.state, compactedTo: undefined, designsAt: undefined }
    expect({ ...state, nextBody: 0, bodyBytes: 0 }).toEqual({
      updateSequence: naive.updateSequence,
      purgeSequence: naive.purgeSequence,
      revisionLimit: naive.revisionLimit,
      purgeLimit: 1000,
      documentCount: documents.filter(([, each]) => !isDeleted(each.revisions)).length,
      deletedCount: documents.filter(([, each]) => isDeleted(each.revisions)).length,
      nextBody: 0,
      bodyBytes: 0,
    })
    for (const [id, { revisions }] of documents) {
      expect(fingerprint(revisionsIn(contents, id)), id.slice(0, 20)).toBe(fingerprint(revisions))
    }
    expect([...contents.changes.values()].map(({ id, leaves, sequence }) => [sequence, id, ...leaves])).toEqual(
      documents
        .toSorted(([, left], [, right]) => left.sequence - right.sequence)
        .map(([id, { sequence, revisions }]) => [sequence, id, ...leavesBestFirst(revisions)]),
    )
    const locals = [...contents.locals].map(([id, { count, text }]) => [id, { count, text: text.toString() }])
    expect(Object.fromEntries(locals)).toEqual(Object.fromEntries(naive.locals))
  }
}

/** Newest first. Even numbers extend half of them, so that there are forks. */
function madeUpHistory(number: number): string[] {
  const hashes = [`${number}`.padStart(2, '0').repeat(16)]
  for (let ancestor = number; ancestor > 1; ) {
    ancestor = ancestor % 2 === 0 ? ancestor / 2 : ancestor - 1
    hashes.push(`${ancestor}`.padStart(2, '0').repeat(16))
  }
  return hashes
}

function namedParent(
  revisions: ReadonlyMap<RevisionId, NaiveRevision>,
  kind: DocumentChoice['parent'],
  choice: number,
): RevisionId | undefined {
  if (kind === 'none') return undefined
  if (kind === 'unknown') return `3-${'e'.repeat(32)}` as RevisionId
  const some = kind === 'leaf' ? leavesBestFirst(revisions) : [...revisions.keys()]
  return some[choice % some.length]
}

function isDeleted(revisions: ReadonlyMap<RevisionId, NaiveRevision>): boolean {
  return revisions.get(leavesBestFirst(revisions)[0]!)!.deleted
}

function revisionsIn(contents: DatabaseContents, id: string): Map<RevisionId, NaiveRevision> {
  const tree = contents.treeOf(id)
  const revisions = new Map<RevisionId, NaiveRevision>()
  for (const leaf of tree?.leaves() ?? []) {
    const ancestry = tree!.ancestry(leaf.revision)
    for (const [i, { revision, body, status }] of ancestry.entries()) {
      const text = contents.bodies.get(body)?.text.toString()
      revisions.set(revision, { parent: ancestry[i + 1]?.revision, text, deleted: status === 'deleted' })
    }
  }
  return revisions
}
