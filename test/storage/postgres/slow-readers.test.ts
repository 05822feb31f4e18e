import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { HeldStates } from '../../../src/storage/snapshots/renewable-snapshot.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

const NUMBER = Buffer.from('number')
/** A client that takes its next page after this time has not stalled. */
const PAUSE_MS = 200

describeOnPostgres('readers whose clients are slow', () => {
  it('do not keep the connections that others wait for', async () => {
    const engine = await PostgresEngine.open({ address: (await sharedPostgres()).address(), readConnections: 1 })
    onTestFinished(() => engine.close())
    const store = await engine.create('slow')
    await store.commit({ puts: [[NUMBER, Buffer.from('1')]] })
    using slow = new HeldStates(store).snapshot()
    let isOver = false
    const reading = (async () => {
      while (!isOver) {
        await slow.get(NUMBER)
        await pause(PAUSE_MS)
      }
    })()
    const other = await engine.create('other')
    for (let reads = 0; reads < 3; reads++) {
      using snapshot = other.snapshot()
      expect(await snapshot.get(NUMBER)).toBeUndefined()
    }
    isOver = true
    await reading
    expect(String(await slow.get(NUMBER))).toBe('1')
    expect(slow.renewals).toBeGreaterThan(0)
  })
})
