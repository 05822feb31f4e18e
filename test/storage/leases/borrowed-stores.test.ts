/** Stores of an engine in another process: what that process may do while the engine takes over a new file. */
import { stat } from 'node:fs/promises'
import { expect, it, onTestFinished } from 'vitest'
import { BorrowedStores } from '../../../src/storage/leases/borrowed-stores.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import type { Put, Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const rewrites: [string, (store: Store) => Promise<void>][] = [
  ['a compaction', (store) => store.compact()],
  ['a replacement', (store) => store.replace(portions())],
]

const MOST_STEPS = 3000

async function* portions(): AsyncGenerator<readonly Put[]> {
  yield [[Buffer.from('key'), Buffer.from('new')]]
}

it.each(rewrites)('nothing is committed while the engine opens the file of %s', async (_, rewrite) => {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder, isShared: true })
  onTestFinished(() => engine.close())
  await engine.create('store', [[Buffer.from('key'), Buffer.from('old')]])
  const lease = engine.lend('store')
  const stores = new BorrowedStores()
  const events: string[] = []
  let commit: Promise<void> | undefined
  const borrowed = stores.open('store', lease.path, {
    nextPath: async () => lease.nextPath(),
    moved: async (path) => {
      events.push('moving')
      commit = borrowed.store.commit({ puts: [[Buffer.from('other'), Buffer.from('value')]] }).then(() => {
        events.push('committed')
      })
      // Time for a commit that is not held back.
      for (let i = 0; i < MOST_STEPS && !events.includes('committed'); i++) await stat(path)
      await lease.moveTo(path)
      events.push('moved')
    },
  })
  await rewrite(borrowed.store)
  await commit
  expect(events).toEqual(['moving', 'moved', 'committed'])
  expect(borrowed.path).toBe(engine.places()[0]?.path)
  await borrowed[Symbol.asyncDispose]()
  await lease.release()
  using snapshot = (await engine.open('store')).snapshot()
  expect((await snapshot.get(Buffer.from('other')))?.toString()).toBe('value')
})
