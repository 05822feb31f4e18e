import { expect, it, vi } from 'vitest'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { ExpectedSnapshot, KnownRows } from '../../../src/views/updating/expected-snapshot.ts'
import { OutrunError } from '../../../src/views/updating/index-commit.ts'

const [known, missing, other] = ['known', 'missing', 'other'].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
  Buffer,
]

async function expected() {
  const store = await new MemoryEngine().create('index')
  const { version } = await store.commit({
    puts: [
      [known, Buffer.of(1)],
      [other, Buffer.of(2)],
    ],
  })
  const rows = new KnownRows()
  rows.add([known, missing], [Buffer.of(1), undefined])
  return { store, version, snapshot: new ExpectedSnapshot(store, version, rows) }
}

it('a state of which everything is known is not read', async () => {
  const { store, version, snapshot } = await expected()
  const taken = vi.spyOn(store, 'snapshot')
  expect(await snapshot.version()).toBe(version)
  expect(await snapshot.getMany([missing, known])).toEqual([undefined, Buffer.of(1)])
  expect(await snapshot.getMany([])).toEqual([])
  expect(taken).not.toHaveBeenCalled()
  expect(await snapshot.getMany([known, other])).toEqual([Buffer.of(1), Buffer.of(2)])
  expect(taken).toHaveBeenCalledOnce()
  snapshot.release()
})

it('a state that is not the newest one any more is not read, and not taken for the newest', async () => {
  const { store, snapshot } = await expected()
  await store.commit({ puts: [[other, Buffer.of(3)]] })
  await expect(snapshot.get(other)).rejects.toThrow(OutrunError)
  await expect(snapshot.page({})).rejects.toThrow(OutrunError)
  await expect(snapshot.count({})).rejects.toThrow(OutrunError)
  expect((await store.commit({ puts: [], expected: await snapshot.version() })).outcome).toBe('stale')
  snapshot.release()
})
