import { expect, it, onTestFinished } from 'vitest'
import { VALUE_LIMIT_BYTES } from '../../../src/storage/postgres/merged-changes.ts'
import { Client } from '../../support/client.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

describeOnPostgres('a value that is larger than the engine takes', () => {
  it('is a document that is refused with 413, whatever the settings allow', async () => {
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
