/** Functions that go wrong, over HTTP: each request gets its error, and all others continue. */
import { expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const design = {
  shows: {
    fine: 'function(doc, req) { return "fine" }',
    endless: 'function() { while (true); }',
    bomb: 'function() { var a = []; while (true) a.push(new Array(1000).fill(a.length)) }',
    recursive: 'function() { (function f() { f() })() }',
    escape: 'function() { return typeof this.constructor.constructor("return this")().process }',
    broken: 'function( {',
    fatal: 'function() { throw ["fatal", "worst", "of all"] }',
  },
  views: {
    endless: { map: 'function(doc) { while (true); }' },
  },
}

async function server(): Promise<Client> {
  const settings = { service: { os_process_timeout: '1000' }, query_server_config: { isolate_memory_limit: '64' } }
  const client = new Client((await startService({ settings })).url)
  await client.request('PUT', '/trouble')
  await client.request('PUT', '/trouble/doc', { body: {} })
  await client.request('PUT', '/trouble/_design/d', { body: design })
  await client.request('PUT', '/peace')
  await client.request('PUT', '/peace/doc', { body: {} })
  await client.request('PUT', '/peace/_design/d', { body: { shows: { fine: design.shows.fine } } })
  return client
}

it('each gets its error, and others are served meanwhile', async () => {
  const client = await server()
  const show = async (name: string) => {
    const reply = await client.request('GET', `/trouble/_design/d/_show/${name}`)
    return [name, reply.status, reply.status === 200 ? reply.body.toString() : reply.as<{ error: string }>().error]
  }
  let isOver = false
  const troubles = Promise.all([
    ...['endless', 'bomb', 'recursive', 'escape', 'broken', 'fatal', 'endless'].map(show),
    client.request('GET', '/trouble/_design/d/_view/endless').then((reply) => [reply.status, reply.as<object>()]),
  ]).finally(() => {
    isOver = true
  })
  const others = async (path: string) => {
    let answers = 0
    for (; !isOver; answers++) expect((await client.request('GET', path)).status).toBe(200)
    return answers
  }
  const [documents, shows] = await Promise.all([others('/peace/doc'), others('/peace/_design/d/_show/fine'), troubles])
  expect(documents).toBeGreaterThan(10)
  expect(shows).toBeGreaterThan(0)
  expect(await troubles).toEqual([
    ['endless', 500, 'os_process_error'],
    ['bomb', 500, 'os_process_error'],
    ['recursive', 500, 'render_error'],
    ['escape', 200, 'undefined'],
    ['broken', 500, 'compilation_error'],
    ['fatal', 500, 'worst'],
    ['endless', 500, 'os_process_error'],
    [500, { error: 'os_process_error', reason: 'OS process timed out.' }],
  ])
})

it('a change of the time limit applies at once', async () => {
  const client = await server()
  await client.request('PUT', '/_config/service/os_process_timeout', { body: '200' })
  const start = performance.now()
  expect((await client.request('GET', '/trouble/_design/d/_show/fine')).status).toBe(200)
  const reply = await client.request('GET', '/trouble/_design/d/_show/endless')
  expect(reply.as()).toEqual({ error: 'os_process_error', reason: 'OS process timed out.' })
  expect(performance.now() - start).toBeGreaterThan(200)
})

it('a new database is served while others fill the processes with endless loops', async () => {
  const settings = { service: { os_process_timeout: '60000' }, query_server_config: { os_process_limit: '6' } }
  const client = new Client((await startService({ settings })).url)
  const names = ['hog-0', 'hog-1', 'hog-2', 'peace']
  for (const name of names) {
    await client.request('PUT', `/${name}`)
    await client.request('PUT', `/${name}/_design/d`, { body: design })
  }
  const loops = await Promise.all(Array.from({ length: 18 }, () => client.open()))
  for (const [i, loop] of loops.entries()) {
    loop.write(`GET /hog-${i % 3}/_design/d/_show/endless HTTP/1.1\r\nHost: x\r\n\r\n`)
  }
  // A loop that runs is in front of this one, whatever database it is of.
  const wait = await client.request('GET', '/hog-0')
  expect(wait.status).toBe(200)
  for (let i = 0; i < 5; i++) expect((await client.request('GET', '/peace/_design/d/_show/fine')).text).toBe('fine')
  expect(loops.map(({ received }) => received).join('')).toBe('')
  for (const loop of loops) loop.end()
})
