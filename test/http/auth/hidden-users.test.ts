/** Whoever may not see a user learns nothing of it from deleting either: the replies are those for a user who is not there. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, expectRefusal, type Reply } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const ADMIN = `Basic ${btoa('root:top')}`
const EVE = `Basic ${btoa('eve:pass')}`

async function startUsers(settings: Record<string, string> = {}) {
  const service = await startService({
    settings: { admins: { root: 'top' }, service_httpd_auth: settings },
  })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  const send = (method: string, path: string, Authorization?: string, body?: unknown): Promise<Reply> =>
    client.request(method, `/_users/${path}`, { headers: { Authorization }, body })
  for (const name of ['ann', 'eve']) {
    const reply = await send('PUT', `org.service.user:${name}`, ADMIN, {
      name,
      password: 'pass',
      roles: [],
      type: 'user',
    })
    expect(reply.status, reply.text).toBe(201)
  }
  const { rev } = await send('PUT', 'org.service.user:bob', ADMIN, { name: 'bob', roles: [], type: 'user' })
  return { send, rev }
}

describe('a user that the sender may not see', () => {
  it.each([undefined, EVE])('cannot be distinguished from a missing one by DELETE, sent with %s', async (sender) => {
    const { send, rev } = await startUsers()
    for (const name of ['bob', 'nobody']) {
      for (const query of ['', `?rev=${rev}`, '?rev=1-abc']) {
        const reply = await send('DELETE', `org.service.user:${name}${query}`, sender)
        expectRefusal(reply, 404, 'not_found', 'missing')
      }
      const attachment = await send('DELETE', `org.service.user:${name}/photo?rev=${rev}`, sender)
      expectRefusal(attachment, 404, 'not_found', 'missing')
    }
    expect((await send('GET', 'org.service.user:bob', ADMIN)).status).toBe(200)
  })

  it('exists once some of its fields are public, and still cannot be deleted', async () => {
    const { send, rev } = await startUsers({ public_fields: 'name' })
    const reply = await send('DELETE', `org.service.user:bob?rev=${rev}`)
    expectRefusal(reply, 403, 'forbidden', 'Only admins may delete other user docs.')
  })

  it('may delete itself', async () => {
    const { send } = await startUsers()
    const { _rev } = (await send('GET', 'org.service.user:eve', EVE)).as<{ _rev: string }>()
    expect((await send('DELETE', `org.service.user:eve?rev=${_rev}`, EVE)).status).toBe(200)
  })
})
