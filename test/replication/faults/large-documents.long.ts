/** Documents that are too large to be read together. */
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'
import { FrontServer } from '../peers/front-server.ts'
import { replicate } from '../peers.ts'

const here = serverOfFile()

describe('large documents', () => {
  it('come one after the other where they would be too much in one reply', async () => {
    const source = await here().database()
    for (let i = 0; i < 12; i++) await source.save(`large-${i}`, { text: 'x'.repeat(6_000_000) })
    const front = await FrontServer.start(here().url)
    const target = await here().database()
    const { history } = await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    expect(history[0]).toMatchObject({ docs_read: 12, docs_written: 12 })
    expect((await target.info()).doc_count).toBe(12)
    const fetched = front.seen.filter(({ url }) => url.includes('_bulk_get'))
    expect(fetched.map(({ headers }) => headers.accept)).toEqual([
      'application/json',
      'multipart/mixed, multipart/related',
    ])
  })
})
