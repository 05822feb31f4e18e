import { describe, expect, it } from 'vitest'
import { Client, expectRefusal } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

describe('ids of the server', () => {
  it.each([
    ['random', /^[0-9a-f]{32}$/],
    ['sequential', /^[0-9a-f]{32}$/],
    ['utc_random', /^06[0-9a-f]{30}$/],
    ['utc_id', /^06[0-9a-f]{12}me$/],
  ])('are %s as configured, for documents too', async (algorithm, form) => {
    const settings = { uuids: { algorithm, utc_id_suffix: 'me' } }
    const client = new Client((await startService({ settings })).url)
    const { uuids } = (await client.request('GET', '/_uuids?count=500')).as<{ uuids: string[] }>()
    for (const id of uuids) expect(id).toMatch(form)
    expect(new Set(uuids).size).toBe(500)
    const db = await client.database()
    expect((await db.post('', {})).as<{ id: string }>().id).toMatch(form)
  })

  it.each(['x', '-1', '1.5', ''])('are refused for count=%s', async (count) => {
    const client = new Client((await startService()).url)
    const reply = await client.request('GET', `/_uuids?count=${count}`)
    expectRefusal(reply, 400, 'bad_request', `Invalid value for count: ${JSON.stringify(count)}`)
  })
})
