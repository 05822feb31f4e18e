import { expect, it, onTestFinished } from 'vitest'
import { VALUE_LIMIT_BYTES } from '../../../src/storage/postgres/merged-changes.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { ValueTooLargeError } from '../../../src/storage/storage-error.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

describeOnPostgres('a value that is larger than the engine takes', () => {
  it('is refused before anything is sent, and nothing of its commit is written', async () => {
    const engine = await PostgresEngine.open({ address: (await sharedPostgres()).address() })
    onTestFinished(() => engine.close())
    const store = await engine.create('a')
    const large = Buffer.alloc(VALUE_LIMIT_BYTES + 1)
    const puts = [
      [Buffer.from('a'), Buffer.from('small')],
      [Buffer.from('b'), large],
    ] as const
    await expect(store.commit({ puts })).rejects.toThrow(ValueTooLargeError)
    async function* rows() {
      yield puts
    }
    await expect(store.replace(rows())).rejects.toThrow(ValueTooLargeError)
    expect(await store.isEmpty()).toBe(true)
    expect((await store.commit({ puts: [puts[0]] })).outcome).toBe('committed')
  })
})
