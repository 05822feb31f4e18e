/** Another implementation as the source: pouchdb-server, whose sequences, errors and limits are not ours. */
import { expect, it, onTestFinished } from 'vitest'
import { startPouchdbServer } from '../../bench/servers.ts'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { runSettle } from './run-settle.ts'

it('imports a pouchdb-server', async () => {
  const peer = await startPouchdbServer()
  onTestFinished(() => peer.process.stop())
  const source = new Client(peer.url)
  const target = new Client((await startService({})).url)
  const send = async (client: Client, method: string, path: string, body?: unknown) => {
    const reply = await client.request(method, path, body === undefined ? {} : { body: JSON.stringify(body) })
    expect(reply.status, `${method} ${path} ${reply.text}`).toBeLessThan(300)
    return reply
  }
  for (const name of ['one', 'two']) await send(source, 'PUT', `/${name}`)
  for (let round = 0; round < 5; round++) {
    const docs = Array.from({ length: 1000 }, (_, i) => ({ _id: `${round}-${i}`, text: 'x'.repeat(500) }))
    await send(source, 'POST', '/one/_bulk_docs', { docs })
  }
  const data = Buffer.alloc(100_000, 5).toString('base64')
  await send(source, 'PUT', '/two/papers', { _attachments: { 'a.bin': { content_type: 'application/x', data } } })
  await send(source, 'POST', '/two/_bulk_docs', {
    new_edits: false,
    docs: [
      { _id: 'torn', _rev: '2-b', _revisions: { start: 2, ids: ['b', 'a'] }, side: 'left' },
      { _id: 'torn', _rev: '2-c', _revisions: { start: 2, ids: ['c', 'a'] }, side: 'right' },
    ],
  })
  const run = () => runSettle(['import', peer.url, '--url', target.url.href, '--quiet', '--no-users', '--no-settings'])
  const { code, err, out } = await run()
  expect(code, `${err}${out}`).toBe(0)
  for (const [name, count] of [
    ['one', 5000],
    ['two', 2],
  ]) {
    expect((await target.request('GET', `/${name}`)).json).toMatchObject({ doc_count: count })
  }
  const torn = await target.request('GET', '/two/torn?conflicts=true')
  expect(torn.json).toMatchObject({ _rev: '2-c', _conflicts: ['2-b'], side: 'right' })
  expect((await target.request('GET', '/two/papers/a.bin')).body.equals(Buffer.alloc(100_000, 5))).toBe(true)
  expect((await run()).code).toBe(0)
})
