import { expect, it, onTestFinished } from 'vitest'
import { AttachmentNumbers } from '../../../src/database/attachments/attachment-numbers.ts'
import { AttachmentStore } from '../../../src/database/attachments/attachment-store.ts'
import { attachmentKey } from '../../../src/database/layout/keys.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import type { KeyRange, PageLimits, Put, SharedSnapshot, Snapshot, Store } from '../../../src/storage/store.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

const ATTACHMENTS = 300
/** Large ones have many chunks. */
const CHUNKS = 20

async function storeWithAttachments(): Promise<{ store: Store; numbers: number[] }> {
  const engine = await PostgresEngine.open({ address: (await sharedPostgres()).address() })
  onTestFinished(() => engine.close())
  const numbers = Array.from({ length: ATTACHMENTS }, (_, i) => 5 + 3 * i)
  const puts = numbers.flatMap((number): Put[] => {
    const chunks = number % 2 === 0 ? CHUNKS : 1
    return Array.from({ length: chunks }, (_, chunk) => [attachmentKey(number, chunk), Buffer.from('x')])
  })
  return { store: await engine.create('x', puts), numbers }
}

/** A snapshot that answers nothing before so many pages were asked for. */
function answersTogether(snapshot: Snapshot, count: number): Snapshot {
  const { promise, resolve } = Promise.withResolvers<void>()
  let asked = 0
  return new Proxy(snapshot, {
    get: (target, name) => {
      if (name !== 'page') return Reflect.get(target, name, target)
      return async (range: KeyRange, limits: PageLimits) => {
        if (++asked === count) resolve()
        await promise
        return target.page(range, limits)
      }
    },
  })
}

describeOnPostgres('attachments in PostgreSQL', () => {
  it('are checked all at once where a write keeps many', async () => {
    const { store, numbers } = await storeWithAttachments()
    const attachments = new AttachmentStore(store, { isFollower: false })
    using snapshot = store.snapshot()
    await attachments.assertStored(answersTogether(snapshot, ATTACHMENTS), numbers, [])
    const missing = attachments.assertStored(snapshot, [...numbers, 6], [])
    await expect(missing).rejects.toThrow('An attachment was removed')
    const brought: Put = [attachmentKey(6, 0), Buffer.from('x')]
    await attachments.assertStored(snapshot, [...numbers, 6], [brought])
  })

  it('are listed with few reads', async () => {
    const { store, numbers } = await storeWithAttachments()
    let snapshots = 0
    const counted = new Proxy(store, {
      get: (target, name) => {
        if (name !== 'snapshot') return Reflect.get(target, name, target)
        return (): SharedSnapshot => {
          snapshots++
          return target.snapshot()
        }
      },
    })
    expect(await Array.fromAsync(new AttachmentNumbers(counted).stored(numbers.at(-1)!))).toEqual(numbers)
    expect(snapshots).toBeLessThanOrEqual(5)
    expect(await Array.fromAsync(new AttachmentNumbers(store).stored(11))).toEqual([5, 8, 11])
    expect(await Array.fromAsync(new AttachmentNumbers(store).stored(4))).toEqual([])
  })
})
