import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createService } from '../../src/service.ts'
import { Client, expectRefusal } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describeOnPostgres('the password of the engine', () => {
  it('is in no reply and in no log', async () => {
    const dir = await temporaryFolder()
    const engine = (await sharedPostgres()).address().replace('settle@', 'settle:s3cret@')
    const { url } = await startService({
      dir,
      environment: { SETTLE_ENGINE: engine },
      settings: { log: { level: 'debug' } },
    })
    const client = new Client(url)
    onTestFinished(() => client.close())
    for (const path of [
      '/_config',
      '/_config?layers=true',
      '/_config/service',
      '/_config/service/engine',
      '/_config/couchdb/engine',
    ]) {
      const reply = await client.request('GET', path)
      expect(reply.text).not.toContain('s3cret')
      if (path === '/_config/service/engine') expect(reply.json).toMatch(/^postgres:\/\/settle@localhost\/postgres/)
    }
    const put = await client.request('PUT', '/_config/service/engine', { body: 'postgres://elsewhere/x' })
    expectRefusal(put, 400, 'modification_not_allowed', 'This config variable is read-only')
    const removed = await client.request('DELETE', '/_config/service/engine')
    expectRefusal(removed, 400, 'modification_not_allowed', 'This config variable is read-only')
    await client.request('PUT', '/db')
    expect((await client.request('GET', '/db')).status).toBe(200)
    const log = (await client.request('GET', '/_log')).text
    expect(log).toContain('PUT /db 201')
    expect(log).not.toContain('s3cret')
    expect(await readFile(join(dir, 'settings.ini'), 'utf8')).not.toContain('s3cret')
  })

  it('is not in the sentence that says why a server does not start', async () => {
    const nowhere = await temporaryFolder()
    const engine = `postgres://settle:s3cret@localhost/postgres?host=${encodeURIComponent(nowhere)}`
    const starting = createService({ dir: await temporaryFolder(), port: 0, engine })
    await expect(starting).rejects.toThrow('The storage engine cannot be reached (ENOENT).')
    await expect(createService({ dir: await temporaryFolder(), engine: 'mysql://a:s3cret@b/c' })).rejects.toThrow(
      'The address of the engine is not of the form postgres://user:password@host:port/database.',
    )
  })
})
