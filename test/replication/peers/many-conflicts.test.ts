/** Documents with very many conflicts: more than fits into one request. */
import { describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'
import { expectSame, replicate } from '../peers.ts'
import { FrontServer } from './front-server.ts'

const here = serverOfFile()
const there = serverOfFile({ settings: { httpd: { max_request_items: '200' } } })

async function conflicts(database: TestDatabase, id: string, count: number, members: object = {}): Promise<void> {
  const docs = Array.from({ length: count }, (_, i) => ({
    _id: id,
    _rev: `1-${String(i).padStart(32, '0')}`,
    ...members,
  }))
  for (let first = 0; first < count; first += 200) await database.replicate(...docs.slice(first, first + 200))
}

const text = { _attachments: { 'a.txt': { content_type: 'text/plain', data: Buffer.from('text').toString('base64') } } }

describe('documents with many conflicts', () => {
  it('are pushed and pulled, though the other server takes fewer revisions in a request', async () => {
    const source = await here().database()
    for (const id of ['a', 'b', 'c']) await conflicts(source, id, 150)
    const remote = await there().database()
    const pushed = await replicate(here(), { source: source.name, target: remote.url })
    expect(pushed.history[0]).toMatchObject({ missing_checked: 450, docs_read: 450, docs_written: 450 })
    const target = await here().database()
    const pulled = await replicate(here(), { source: remote.url, target: target.name })
    expect(pulled.history[0]).toMatchObject({ missing_checked: 450, docs_read: 450, docs_written: 450 })
    await expectSame(source, target)
  })

  it('are pulled with attachments from a server that has no _bulk_get and reads short addresses only', async () => {
    const source = await here().database()
    await conflicts(source, 'a', 150, text)
    const front = await FrontServer.start(here().url, ({ url = '' }, response) => {
      if (!url.includes('_bulk_get') && url.length < 3000) return false
      response.writeHead(url.length < 3000 ? 404 : 414).end('{"error":"x","reason":"y"}')
      return true
    })
    const target = await here().database()
    const { history } = await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    expect(history[0]).toMatchObject({ missing_found: 150, docs_read: 150, docs_written: 150 })
    await expectSame(source, target)
  })

  it('are pushed, pulled and copied where their revisions do not fit into memory together', async () => {
    const source = await here().database()
    const large = { ...text, text: 'x'.repeat(200_000) }
    await conflicts(source, 'a', 20, large)
    await conflicts(source, 'b', 20, { text: 'y'.repeat(200_000) })
    // The winner is small, and says nothing of the others.
    for (const id of ['a', 'b']) await source.replicate({ _id: id, _rev: `2-${'f'.repeat(32)}` })
    await source.save('c', {})
    const remote = await there().database()
    const [copied, pulled] = [await here().database(), await here().database()]
    for (const request of [
      { source: source.name, target: copied.name },
      { source: source.name, target: remote.url },
      { source: remote.url, target: pulled.name },
    ]) {
      const { history } = await replicate(here(), request)
      expect(history[0]).toMatchObject({ missing_found: 43, docs_read: 43, docs_written: 43 })
    }
    await expectSame(source, copied)
    await expectSame(source, pulled)
  })
})
