import { expect, it } from 'vitest'
import type { Snapshot } from '../../../src/storage/store.ts'
import { encodeState, newState, StateReader } from '../../../src/views/layout/index-state.ts'
import { collectGarbage } from '../../support/collect-garbage.ts'
import { until } from '../../support/until.ts'

it('does not keep the memory that the state of an index was read into', async () => {
  const state = newState('uuid', 1, 0)
  const reader = new StateReader('uuid')
  let page: WeakRef<ArrayBufferLike> | undefined
  const get = async () => {
    const stored = encodeState(state)
    const read = Buffer.alloc(1024 * 1024)
    stored.copy(read)
    page = new WeakRef(read.buffer)
    return read.subarray(0, stored.length)
  }
  const snapshot: Pick<Snapshot, 'get'> = { get }
  const first = await reader.read(snapshot as Snapshot)
  expect(first).toEqual(state)
  await until(async () => {
    await collectGarbage()
    return page?.deref() === undefined
  })
  // It is not parsed again.
  expect(await reader.read(snapshot as Snapshot)).toBe(first)
})
