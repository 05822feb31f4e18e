import { describe, expect, it, onTestFinished } from 'vitest'
import { Database } from '../../../src/database/database.ts'
import {
  bodyKey,
  changeKey,
  decodeState,
  documentKey,
  encodeState,
  STATE_KEY,
  treeKey,
} from '../../../src/database/layout/keys.ts'
import { winner } from '../../../src/document/revisions/winner.ts'
import { HashList, NO_PARENT } from '../../../src/document/tree/branch.ts'
import { RevisionTree } from '../../../src/document/tree/revision-tree.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { COMMIT_OPERATIONS_LIMIT, type Put, type Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { checkDatabase } from '../check-database.ts'
import { DatabaseContents } from '../database-contents.ts'
import { encodeBody, encodeChange, encodeRecord } from '../encoded-rows.ts'
import { memoryDatabase, put, surroundings, written } from '../test-database.ts'

describe('the compaction of a database', () => {
  it('gets through more old bodies than a commit holds', { timeout: 120_000 }, async () => {
    const { store } = await memoryDatabase()
    const revisions = 1000
    const documents = Math.ceil(COMMIT_OPERATIONS_LIMIT / revisions) + 20
    await plant(store, documents, revisions)
    const complaints: string[] = []
    const complain = (message: string) => complaints.push(message)
    const database = await Database.open(
      store,
      surroundings({ debug() {}, info() {}, warn: complain, error: complain }),
    )
    database.compact()
    await database.compacted()
    expect(complaints).toEqual([])
    using view = database.view()
    expect((await DatabaseContents.read(view.snapshot)).bodies.size).toBe(documents)
  })

  it('is aborted when the database is closed, which is not an error', async () => {
    const errors: unknown[] = []
    const log = { ...silentLog, error: (...what: unknown[]) => errors.push(what) }
    const engine = await LmdbEngine.open({ folder: await temporaryFolder() })
    onTestFinished(() => engine.close())
    const database = await Database.create(await engine.create('test'), surroundings(log))
    for (let n = 0; n < 10; n++) await database.write(Array.from({ length: 100 }, (_, i) => put(`${n}-${i}`, { n })))
    database.compact()
    await database.close()
    await database.compacted()
    expect(errors).toEqual([])
  })

  it('cuts histories to a limit that was lowered since the last one', async () => {
    const { database, store } = await memoryDatabase()
    let parent: string | undefined
    for (let i = 0; i < 30; i++) [parent] = await written(database.write([put('a', { i }, { parent })]))
    for (const limit of [20, 5]) {
      await database.setRevisionLimit(limit)
      database.compact()
      await database.compacted()
      using view = database.view()
      const [found] = await view.records(['a'])
      expect(found?.record?.tree.ancestry(found.record.winner)).toHaveLength(limit)
      expect(await checkDatabase(view.snapshot)).toEqual([])
    }
    expect(store.dropped).toBe(false)
  })
})

/** Documents with many revisions each, all with their bodies: to write them one by one would take long. */
async function plant(store: Store, documents: number, revisions: number): Promise<void> {
  const bodyBytes = 2
  for (let document = 0; document < documents; document++) {
    const first = 1 + document * revisions
    const numbers = Array.from({ length: revisions }, (_, i) => first + i)
    const hashes = HashList.of(numbers.map((number) => number.toString(16).padStart(32, '0')))
    const tree = new RevisionTree([{ parent: NO_PARENT, start: 1, hashes, bodies: numbers }])
    const { revision, body } = winner(tree)
    const id = `document ${document}`
    const sequence = document + 1
    const encoded = encodeRecord({
      sequence,
      winner: revision,
      deleted: false,
      body,
      bodyBytes,
      hasOldBodies: true,
      hasAttachments: false,
      tree,
    })
    const text = encodeBody({ text: Buffer.from('{}'), attachments: [] })
    const puts: Put[] = numbers.map((number) => [bodyKey(number), text])
    puts.push([documentKey(id), encoded.record], [treeKey(id), encoded.tree!])
    puts.push([changeKey(sequence), encodeChange(sequence, { id, leaves: [revision], deleted: false, body })])
    await store.commit({ puts })
  }
  using snapshot = store.snapshot()
  const state = decodeState((await snapshot.get(STATE_KEY))!)
  const planted = {
    ...state,
    updateSequence: documents,
    documentCount: documents,
    nextBody: 1 + documents * revisions,
    bodyBytes: documents * bodyBytes,
  }
  await store.commit({ puts: [[STATE_KEY, encodeState(planted)]] })
}
