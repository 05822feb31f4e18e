/** Who may make, list, use and remove selector indexes. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createService, type Service } from '../../../src/service.ts'
import { Client, type Reply } from '../../support/client.ts'
import { type StoragePlace, storagePlace } from '../../support/storage-place.ts'

let place: StoragePlace
let service: Service
let client: Client

const PEOPLE = { 'server admin': 'root:top', 'database admin': 'dora:pass', member: 'mia:pass', user: 'eve:pass' }
type Person = keyof typeof PEOPLE | 'nobody'

function as(person: Person): Record<string, string> {
  if (person === 'nobody') return {}
  return { Authorization: `Basic ${Buffer.from(PEOPLE[person]).toString('base64')}` }
}

function send(person: Person, method: string, path: string, body?: object): Promise<Reply> {
  const options = body === undefined ? { headers: as(person) } : { headers: as(person), body }
  return client.request(method, `/db/${path}`, options)
}

beforeAll(async () => {
  place = await storagePlace({})
  service = await createService({ port: 0, ...place.options })
  client = new Client(await service.listen())
  await client.request('PUT', '/_config/admins/root', { body: '"top"' })
  const headers = as('server admin')
  for (const name of ['dora', 'mia', 'eve']) {
    const body = { name, password: 'pass', roles: [], type: 'user' }
    const reply = await client.request('PUT', `/_users/org.service.user:${name}`, { headers, body })
    expect(reply.status, reply.text).toBe(201)
  }
  await client.request('PUT', '/db', { headers })
  const security = { admins: { names: ['dora'] }, members: { names: ['mia'] } }
  await client.request('PUT', '/db/_security', { headers, body: security })
  await send('server admin', 'POST', '_index', { index: { fields: ['a'] }, ddoc: 'kept', name: 'a' })
})

afterAll(async () => {
  client.close()
  await service.close()
  await place.remove()
})

describe('indexes', () => {
  it.each<Person>(['server admin', 'database admin'])('are made and removed by a %s', async (person) => {
    expect((await send(person, 'POST', '_index', { index: { fields: ['b'] }, ddoc: 'b', name: 'b' })).status).toBe(200)
    expect((await send(person, 'DELETE', '_index/b/json/b')).status).toBe(200)
    await send(person, 'POST', '_index', { index: { fields: ['b'] }, ddoc: 'b', name: 'b' })
    const removed = await send(person, 'POST', '_index/_bulk_delete', { docids: ['_design/b'] })
    expect(removed.json).toEqual({ success: [{ id: '_design/b', ok: true }], fail: [] })
  })

  it('are listed and used by a member, who may not change them', async () => {
    expect((await send('member', 'GET', '_index')).json).toMatchObject({ total_rows: 2 })
    expect((await send('member', 'POST', '_find', { selector: { a: 1 } })).status).toBe(200)
    expect((await send('member', 'POST', '_explain', { selector: { a: 1 } })).status).toBe(200)
    const made = await send('member', 'POST', '_index', { index: { fields: ['c'] } })
    const removed = await send('member', 'DELETE', '_index/kept/json/a')
    const bulk = await send('member', 'POST', '_index/_bulk_delete', { docids: ['_design/kept'] })
    expect([made, removed, bulk].map(({ status }) => status)).toEqual([401, 401, 401])
    expect((await send('server admin', 'GET', '_index')).json).toMatchObject({ total_rows: 2 })
  })

  it.each<Person>(['user', 'nobody'])('are not there for others: a %s', async (person) => {
    const replies = await Promise.all([
      send(person, 'GET', '_index'),
      send(person, 'POST', '_find', { selector: {} }),
      send(person, 'POST', '_explain', { selector: {} }),
      send(person, 'POST', '_index', { index: { fields: ['c'] } }),
      send(person, 'DELETE', '_index/kept/json/a'),
      send(person, 'POST', '_index/_bulk_delete', { docids: ['_design/kept'] }),
    ])
    expect([...new Set(replies.map(({ status }) => status))]).toEqual([401])
  })
})
