import { expect, it } from 'vitest'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { describeEngine } from '../conformance.ts'

describeEngine('the memory engine', async () => new MemoryEngine())

it('counts how often its answers were waited for', async () => {
  const engine = new MemoryEngine()
  const store = await engine.create('a')
  const before = engine.roundTrips.count
  using snapshot = store.snapshot()
  await snapshot.get(Buffer.from('k'))
  await snapshot.getMany([Buffer.from('k'), Buffer.from('l')])
  expect(engine.roundTrips.count - before).toBe(2)
})
