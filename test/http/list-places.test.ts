import { describe, expect, it } from 'vitest'
import { rawRequest, serverOfFile, until } from '../support/client.ts'

const client = serverOfFile({
  inMemory: true,
  settings: { query_server_config: { os_process_limit: '2' } },
})

/** More than what lies between a server and a client that takes nothing. */
const LONG = `function () {
  var text = new Array(100000).join('x');
  while (getRow()) send(text);
}`

describe('lists that their clients do not take', () => {
  it('leave room for other functions, and go when their clients do', async () => {
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
