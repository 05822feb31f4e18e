import { describe, expect, it } from 'vitest'
import { rawRequest, serverOfFile } from '../../support/client.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile({
  settings: { query_server_config: { os_process_limit: '2' } },
})

/** More than what lies between a server and a client that takes nothing. */
const LONG = `function () {
  var text = new Array(100000).join('x');
  while (getRow()) send(text);
}`

describe('lists whose clients do not read', () => {
  it('leave slots for other functions, and end with their clients', async () => {
    const db = await client().database()
    await db.save('_design/app', {
      lists: { long: LONG, short: "function () { return 'short' }" },
      shows: { it: "function () { return 'shown' }" },
    })
    const docs = Array.from({ length: 500 }, (_, i) => ({ _id: `${i}` }))
    expect((await db.post('_bulk_docs', { docs })).status).toBe(201)
    const path = `/${db.name}/_design/app/_list/long/_all_docs`
    const slow = await client().open()
    // Not a byte more than the head is read: it is the socket's own buffer that fills.
    slow.write(rawRequest([`GET ${path} HTTP/1.1`, `Host: ${client().host}`]))
    await slow.receives('200 OK')
    slow.pause()
    expect((await db.get('_design/app/_show/it')).text).toBe('shown')
    let isServed = false
    const waiting = db.get('_design/app/_list/short/_all_docs').then((reply) => {
      isServed = true
      return reply.text
    })
    expect((await db.get('_design/app/_show/it')).text).toBe('shown')
    expect(isServed).toBe(false)
    slow.end()
    expect(await waiting).toBe('short')
    await until(async () => (await db.get('_design/app/_list/short/_all_docs')).status === 200)
  })
})

describe('lists that wait for their index', () => {
  it('leave slots for other lists', async () => {
    const db = await client().database()
    await db.save('a', {})
    await db.save('_design/app', { lists: { short: "function () { return 'short' }" } })
    // Longer than all else here takes, and shorter than a function may take.
    const map = 'function (doc) { var end = Date.now() + 3500; while (Date.now() < end); emit(null, null) }'
    await db.save('_design/slow', { views: { v: { map } } })
    const waiting = [1, 2, 3].map(() => db.get('_design/app/_list/short/slow/v'))
    const information = () => db.get('_design/slow/_info')
    await until(async () => {
      const { view_index } = (await information()).as<{ view_index: { waiting_clients: number } }>()
      return view_index.waiting_clients === 3
    })
    expect((await db.get('_design/app/_list/short/_all_docs')).text).toBe('short')
    expect((await information()).json).toMatchObject({ view_index: { waiting_clients: 3 } })
    for (const reply of await Promise.all(waiting)) expect(reply.text).toBe('short')
  })
})
