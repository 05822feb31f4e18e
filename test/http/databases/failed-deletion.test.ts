/** A DELETE that the disk does not let happen: the database is there as before, and so are its views. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const DESIGN = { views: { n: { map: 'function (doc) { emit(doc.n) }', reduce: '_count' } } }
const VIEW = '/db/_design/test/_view/n'

it('answers 500 to a DELETE that fails, and continues to serve the database', async () => {
  const dir = await temporaryFolder()
  const service = await startService({ dir, inMemory: false })
  const client = new Client(service.url)
  const countOf = async () => {
    const reply = await client.request('GET', VIEW)
    expect(reply.status, reply.text).toBe(200)
    return reply.as<{ rows: { value: number }[] }>().rows[0]?.value
  }
  await client.request('PUT', '/db')
  await client.request('PUT', '/db/_design/test', { body: DESIGN })
  await client.request('PUT', '/db/one', { body: { n: 1 } })
  expect(await countOf()).toBe(1)
  const trash = join(dir, '.trash')
  await rm(trash, { recursive: true })
  await writeFile(trash, '')
  const failed = await client.request('DELETE', '/db')
  expect([failed.status, failed.json]).toMatchObject([500, { error: 'commit_failed' }])
  expect((await client.request('GET', '/_all_dbs')).json).toContain('db')
  expect((await client.request('PUT', '/db')).status).toBe(412)
  expect(await countOf()).toBe(1)
  expect((await client.request('PUT', '/db/two', { body: { n: 2 } })).status).toBe(201)
  expect(await countOf()).toBe(2)
  await rm(trash)
  expect((await client.request('DELETE', '/db')).status).toBe(200)
  expect((await client.request('GET', '/db')).status).toBe(404)
  client.close()
})
