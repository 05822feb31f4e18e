/** A write that is on disk is acknowledged, whatever its listeners do. */
import { expect, it } from 'vitest'
import { Database } from '../../src/database/database.ts'
import { silentLog } from '../../src/runtime/log/log.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import { put, surroundings, written } from './test-database.ts'

function fail(): never {
  throw new Error('A listener failed.')
}

it.each([1, 100])('is written once and answered, and the other listeners are notified (%i of them)', async (count) => {
  const logged: string[] = []
  const log = { ...silentLog, error: (message: string) => void logged.push(message) }
  const store = await new MemoryEngine().create('test')
  const database = await Database.create(store, { ...surroundings(log), onEvent: fail })
  let heard = 0
  database.onUpdate(fail)
  database.changes.subscribe(fail)
  for (let n = 0; n < count; n++) database.changes.subscribe(() => heard++)
  database.onUpdate(() => heard++)
  const revisions = await Promise.all(['a', 'b', 'c'].map((id) => written(database.write([put(id, {})]))))
  expect(revisions.flat()).toHaveLength(3)
  await expect.poll(() => heard).toBeGreaterThanOrEqual(count + 1)
  expect(new Set(logged)).toEqual(new Set(['A listener of a database failed.']))
  using view = database.view()
  expect(await view.state()).toMatchObject({ documentCount: 3, updateSequence: 3 })
})
