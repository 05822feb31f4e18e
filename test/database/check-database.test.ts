import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { decodeChange } from '../../src/database/layout/change-row.ts'
import { decodeRecord } from '../../src/database/layout/document-record.ts'
import {
  attachmentKey,
  bodyKey,
  changeKey,
  type DatabaseState,
  decodeState,
  documentKey,
  encodeState,
  localKey,
  purgeKey,
  RANK_PREFIX,
  STATE_KEY,
  treeKey,
} from '../../src/database/layout/keys.ts'
import { decodeTree, encodeTree } from '../../src/document/tree/tree-codec.ts'
import { withLeafBodiesOnly } from '../../src/document/tree/tree-pruning.ts'
import type { Changes, Snapshot, Store } from '../../src/storage/store.ts'
import { checkDatabase } from './check-database.ts'
import { encodeChange, encodeRecord } from './encoded-rows.ts'
import { local, memoryDatabase, put, remove, replicated, written } from './test-database.ts'

/** Has something of everything: long and short trees, conflicts, tombstones, old bodies, local documents, purges. */
async function example(): Promise<{ database: Database; store: Store }> {
  const { database, store } = await memoryDatabase()
  const ids = Array.from({ length: 300 }, (_, i) => `document ${i}`)
  const revisions = await written(database.write(ids.map((id, i) => put(id, { i }))))
  await written(database.write(ids.slice(0, 50).map((id, i) => remove(id, revisions[i]!))))
  let parent = revisions[60]!
  for (let i = 0; i < 20; i++) {
    parent = (await written(database.write([put('document 60', { i }, { parent })])))[0]!
  }
  await written(database.write([replicated('document 60', { start: 3, hashes: ['other', 'root'] }, { other: true })]))
  await written(database.write([replicated('document 61', { start: 1, hashes: ['other'] }, { other: true })]))
  const { content, puts } = await database.attachments.stage(Readable.from([Buffer.from('attached')]))
  const attachments = [{ ...content, name: 'file', contentType: 'text/plain', revpos: undefined, puts }]
  await written(database.write([{ ...replicated('attached', { start: 1, hashes: ['one'] }, {}), attachments }]))
  await written(database.write([local('_local/one', { one: 1 })]))
  await database.purge(new Map([['document 299', [revisions[299]!]]]))
  return { database, store }
}

const LONG = 'document 60'
const SHORT = 'document 100'
const TWO_LEAVES = 'document 61'

describe('the check of a database', () => {
  it('finds no fault in a good database', async () => {
    const { database, store } = await example()
    expect(await faultsOf(store)).toEqual([])
    database.compact()
    await database.compacted()
    expect(await faultsOf(store)).toEqual([])
  })

  it.each<[string, (snapshot: Snapshot) => Promise<Changes>, RegExp]>([
    ['a lost document', async () => ({ deletes: [documentKey(SHORT)] }), /has no document/],
    [
      'a lost change',
      async (snapshot) => ({ deletes: [changeKey(await sequenceOf(snapshot, SHORT))] }),
      /is not there/,
    ],
    ['a change too many', secondChange, /is not the only one/],
    ['a change beyond the last', changeBeyondTheLast, /above the update sequence/],
    ['a change without its second leaf', changeWithoutLeaf, /has the leaves/],
    ['a lost body', async (snapshot) => ({ deletes: [bodyKey(await bodyOf(snapshot, SHORT))] }), /is not there/],
    ['a body of nobody', async () => ({ puts: [[bodyKey(77_777), Buffer.from('\0{}')]] }), /is used by nobody/],
    ['a body that is no JSON', brokenBody, /cannot be understood/],
    ['a body of another size', longerBody, /is said to have/],
    ['a lost tree', async () => ({ deletes: [treeKey(LONG)] }), /lies apart and is not there/],
    ['a tree of nobody', strayTree, /that no record speaks of/],
    ['a tree without its old bodies', trimmedTree, /has 0 old bodies and says otherwise/],
    ['another winner', otherWinner, /it shows 1-0+ and not/],
    ['a tombstone that is counted', wrongState({ deletedCount: 49 }), /deletedCount is said to be 49 and is 50/],
    ['a wrong count', wrongState({ documentCount: 1 }), /documentCount is said to be 1 and is 250/],
    ['a wrong size', wrongState({ bodyBytes: 1 }), /bodyBytes is said to be 1/],
    ['a sequence that fell back', wrongState({ updateSequence: 10 }), /above the update sequence 10/],
    ['a body number that is given out again', wrongState({ nextBody: 5 }), /and 5 is to be the next/],
    ['a lost purge', async () => ({ deletes: [purgeKey(1)] }), /purgeSequence is said to be 1 and is 0/],
    ['lost ranks', async () => ({ clears: [{ from: RANK_PREFIX, to: Buffer.from('s') }] }), /are wrong or missing/],
    [
      'a rank too many',
      async () => ({ puts: [[Buffer.from('r\x01document'), Buffer.of(1, 0)]] }),
      /ought not to be there/,
    ],
    ['a broken local document', async () => ({ puts: [[localKey('_local/one'), Buffer.from('\x01[')]] }), /understood/],
    ['lost bytes of an attachment', async () => ({ deletes: [attachmentKey(1, 0)] }), /undefined bytes and not 8/],
    ['a row of no kind', async () => ({ puts: [[Buffer.from('zero'), Buffer.of(0)]] }), /no such kind of row/],
    ['a broken record', async () => ({ puts: [[documentKey(SHORT), Buffer.of(8, 1, 1, 1, 1)]] }), /understood/],
    ['no numbers', async () => ({ deletes: [STATE_KEY] }), /no numbers/],
  ])('notices %s', async (_, damage, expected) => {
    const { store } = await example()
    const snapshot = store.snapshot()
    await store.commit(await damage(snapshot))
    const faults = await faultsOf(store)
    expect(
      faults.some((fault) => expected.test(fault)),
      faults.join('\n'),
    ).toBe(true)
  })
})

async function faultsOf(store: Store): Promise<string[]> {
  using snapshot = store.snapshot()
  return await checkDatabase(snapshot)
}

async function recordOf(snapshot: Snapshot, id: string) {
  return decodeRecord((await snapshot.get(documentKey(id)))!)
}

async function sequenceOf(snapshot: Snapshot, id: string): Promise<number> {
  return (await recordOf(snapshot, id)).sequence
}

async function bodyOf(snapshot: Snapshot, id: string): Promise<number> {
  return (await recordOf(snapshot, id)).body
}

async function changeOf(snapshot: Snapshot, id: string) {
  return decodeChange((await snapshot.get(changeKey(await sequenceOf(snapshot, id))))!)
}

async function stateOf(snapshot: Snapshot): Promise<DatabaseState> {
  return decodeState((await snapshot.get(STATE_KEY))!)
}

async function secondChange(snapshot: Snapshot): Promise<Changes> {
  // The first change was of a document that was deleted later, so its number is free.
  return { puts: [[changeKey(1), encodeChange(1, await changeOf(snapshot, SHORT))]] }
}

async function changeBeyondTheLast(snapshot: Snapshot): Promise<Changes> {
  const { updateSequence } = await stateOf(snapshot)
  return { puts: [[changeKey(updateSequence + 1), encodeChange(updateSequence + 1, await changeOf(snapshot, SHORT))]] }
}

async function changeWithoutLeaf(snapshot: Snapshot): Promise<Changes> {
  const change = await changeOf(snapshot, TWO_LEAVES)
  const less = encodeChange(change.sequence, { ...change, leaves: change.leaves.slice(0, 1) })
  return { puts: [[changeKey(change.sequence), less]] }
}

async function brokenBody(snapshot: Snapshot): Promise<Changes> {
  return { puts: [[bodyKey(await bodyOf(snapshot, SHORT)), Buffer.from('\0{')]] }
}

async function longerBody(snapshot: Snapshot): Promise<Changes> {
  return { puts: [[bodyKey(await bodyOf(snapshot, SHORT)), Buffer.from('\0{"longer":true}')]] }
}

async function strayTree(snapshot: Snapshot): Promise<Changes> {
  return { puts: [[treeKey(SHORT), (await snapshot.get(treeKey(LONG)))!]] }
}

async function trimmedTree(snapshot: Snapshot): Promise<Changes> {
  const tree = decodeTree((await snapshot.get(treeKey(LONG)))!)
  return { puts: [[treeKey(LONG), encodeTree(withLeafBodiesOnly(tree))]] }
}

async function otherWinner(snapshot: Snapshot): Promise<Changes> {
  const bytes = (await snapshot.get(documentKey(TWO_LEAVES)))!
  const { winner, tree } = decodeRecord(bytes)
  const [, loser] = tree!.leaves().filter(({ revision }) => revision !== winner) ?? []
  const { record } = encodeRecord({
    ...decodeRecord(bytes),
    tree: tree!,
    winner: loser?.revision ?? zeroRevision(winner),
  })
  return { puts: [[documentKey(TWO_LEAVES), record]] }
}

/** The same text with a hash of zeros. */
function zeroRevision<T extends string>(revision: T): T {
  return revision.replace(/[0-9a-f]{32}|other/, '0'.repeat(32)) as T
}

function wrongState(wrong: Partial<DatabaseState>): (snapshot: Snapshot) => Promise<Changes> {
  return async (snapshot) => ({ puts: [[STATE_KEY, encodeState({ ...(await stateOf(snapshot)), ...wrong })]] })
}
