import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Service } from '../../../src/service.ts'
import { Client, expectRefusal, rawRequest } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { TEST_NODES } from '../../support/test-service.ts'
import { until } from '../../support/until.ts'

const JSON_TYPE = { headers: { 'Content-Type': 'application/json' } }

/** Asks for a restart and waits until the server is there again. */
async function restart(service: Service, database: string): Promise<Client> {
  const client = new Client(service.url)
  const started = async () => {
    const { url } = client
    const reply = await fetch(`${url}${database}`)
    return /"instance_start_time":"(\d+)"/.exec(await reply.text())?.[1] ?? ''
  }
  const before = await started()
  const reply = await client.request('POST', '/_restart', JSON_TYPE)
  expect([reply.status, reply.text]).toEqual([202, '{"ok":true}\n'])
  await until(async () => (await started().catch(() => before)) !== before)
  return client
}

describe('POST /_restart', () => {
  it.each([true, false])('opens everything again as it was (in memory: %s)', async (inMemory) => {
    const service = await startService({ inMemory })
    const { url } = service
    const client = new Client(url)
    const db = await client.database()
    await db.save('doc', { a: 1 })
    await db.put('batched?batch=ok', { b: 1 })
    await client.request('PUT', '/_config/test/kept', { body: '"x"' })
    await client.request('PUT', '/_config/test/passing', { body: '"x"', headers: { 'X-Service-Persist': 'false' } })
    await restart(service, db.name)
    expect(service.url).toBe(url)
    expect((await db.get('doc')).json).toMatchObject({ a: 1 })
    expect((await db.get('batched')).json).toMatchObject({ b: 1 })
    expect((await client.request('GET', '/_config/test')).json).toEqual({ kept: 'x' })
    expect((await client.request('GET', '/_stats/httpd_request_methods/PUT?flush=true')).json).toMatchObject({
      httpd_request_methods: { PUT: { current: 0 } },
    })
    await restart(service, db.name)
    expect((await db.get('doc')).status).toBe(200)
  })

  it('reads the configuration files again, and keeps the old values when they are invalid', async () => {
    const dir = await temporaryFolder()
    const service = await startService({ dir })
    const db = await new Client(service.url).database()
    await writeFile(join(dir, 'local.ini'), '[uuids]\nmax_count = 7\n')
    const client = await restart(service, db.name)
    expect((await client.request('GET', '/_config/uuids/max_count')).json).toBe('7')
    await writeFile(join(dir, 'local.ini'), '[uuids]\nmax_count = many\n')
    await restart(service, db.name)
    expect((await client.request('GET', '/_config/uuids/max_count')).json).toBe('7')
    expect((await client.request('GET', '/_log?bytes=5000')).text).toContain('uuids/max_count must be')
  })

  // Several nodes have a supervisor, which keeps the socket: nobody is refused meanwhile.
  it.skipIf(TEST_NODES > 1)('waits for requests that are under way', async () => {
    const service = await startService()
    const client = new Client(service.url)
    const db = await client.database()
    const waiting = await client.open()
    waiting.write(rawRequest([`PUT /${db.name}/doc HTTP/1.1`, 'Host: x', 'Content-Length: 2']))
    await db.get()
    await client.request('POST', '/_restart', JSON_TYPE)
    await until(async () =>
      fetch(client.url).then(
        () => false,
        () => true,
      ),
    )
    waiting.write('{}')
    await waiting.receives('201 Created')
    await until(async () =>
      fetch(client.url).then(
        () => true,
        () => false,
      ),
    )
    expect((await db.get('doc')).status).toBe(200)
  })

  it.each([true, false])('loses nothing that it acknowledged meanwhile (in memory: %s)', async (inMemory) => {
    const service = await startService({ inMemory })
    const db = await new Client(service.url).database()
    const acknowledged: string[] = []
    let isOver = false
    const write = async (writer: number) => {
      for (let i = 0; !isOver; i++) {
        const id = `${writer}-${i}`
        const reply = await db.put(id, {}).catch(() => undefined)
        if (reply?.status === 201) acknowledged.push(id)
        else if (reply) expect(reply.text).toBe('')
      }
    }
    const writers = [1, 2, 3, 4].map(write)
    await restart(service, db.name)
    await restart(service, db.name)
    isOver = true
    await Promise.all(writers)
    const { rows } = (await db.get('_all_docs')).as<{ rows: { id: string }[] }>()
    const present = new Set(rows.map(({ id }) => id))
    expect(acknowledged.filter((id) => !present.has(id))).toEqual([])
    expect(acknowledged.length).toBeGreaterThan(0)
  })

  it('moves the databases when the configuration does', async () => {
    const [dir, other] = await Promise.all([temporaryFolder(), temporaryFolder()])
    const service = await startService({ dir })
    const client = new Client(service.url)
    const db = await client.database()
    await client.request('PUT', '/_config/service/database_dir', { body: JSON.stringify(join(other, 'deep')) })
    await client.request('POST', '/_restart', JSON_TYPE)
    await until(async () => (await fetch(`${client.url}${db.name}`).catch(() => undefined))?.status === 404)
    await client.request('PUT', '/_config/service/database_dir', { body: JSON.stringify('/dev/null/nowhere') })
    await client.request('POST', '/_restart', JSON_TYPE)
    const log = () =>
      fetch(`${client.url}_log`).then(
        (reply) => reply.text(),
        () => '',
      )
    await until(async () => (await log()).includes('the previous ones are used'))
    expect((await client.request('GET', `/${db.name}`)).status).toBe(404)
  })

  it('runs once more when it is requested while another one ends', async () => {
    const dir = await temporaryFolder()
    const { url } = await startService({ dir })
    const ask = async () => (await fetch(`${url}_restart`, { method: 'POST', ...JSON_TYPE })).status
    const asked = async () => {
      while ((await ask().catch(() => undefined)) !== 202);
    }
    const settingNow = async () => (await fetch(`${url}_config/uuids/max_count`)).json()
    for (let round = 1; round <= 20; round++) {
      await asked()
      await writeFile(join(dir, 'local.ini'), `[uuids]\nmax_count = ${round}\n`)
      // The first answer that can be had may come from a server that is not done with the first restart.
      await asked()
      await until(async () => (await settingNow().catch(() => undefined)) === String(round))
    }
  })

  it('requires a POST of JSON', async () => {
    const client = new Client((await startService()).url)
    const refused = await client.request('POST', '/_restart')
    expectRefusal(refused, 415, 'bad_content_type', 'Content-Type must be application/json')
    expectRefusal(await client.request('GET', '/_restart'), 405, 'method_not_allowed', 'Only POST allowed')
  })

  it('does not stop a close at the same time', async () => {
    const service = await startService()
    await new Client(service.url).request('POST', '/_restart', JSON_TYPE)
    await service.close()
    await expect(fetch(service.url)).rejects.toThrow()
  })
})
