import { expect, it, onTestFinished } from 'vitest'
import { VALUE_LIMIT_BYTES } from '../../../src/storage/postgres/merged-changes.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { ValueTooLargeError } from '../../../src/storage/storage-error.ts'
import { Client } from '../../support/client.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

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

  it('is a document that is too large for its reader to be told 413, whatever the settings allow', async () => {
    const settings = { service: { max_document_size: String(2 * VALUE_LIMIT_BYTES) } }
    const engine = (await sharedPostgres()).address()
    const client = new Client((await startService({ dir: await temporaryFolder(), engine, settings })).url)
    onTestFinished(() => client.close())
    const db = await client.database()
    const reply = await db.put('large', Buffer.from(`{"text":"${'x'.repeat(VALUE_LIMIT_BYTES)}"}`), {
      'Content-Type': 'application/json',
    })
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([413, 'too_large'])
    expect((await db.put('small', {})).status).toBe(201)
  })
})
