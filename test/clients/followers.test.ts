/** changesreader and follow, which live on changes feeds. They come without types. */
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import type { Dialect } from '../../src/config/dialect.ts'
import { startService } from '../support/service.ts'

interface Emitter {
  on(name: string, listener: (value: never) => void): this
}
interface Reader {
  get(options: object): Emitter
  start(options: object): Emitter
  spool(options: object): Emitter
  stop(): void
}
interface Feed extends Emitter {
  follow(): void
  stop(): void
}

const require = createRequire(import.meta.url)
const ChangesReader: new (database: string, url: string) => Reader = require('changesreader')
const follow: { Feed: new (options: object) => Feed } = require('follow')

const DIALECTS: readonly Dialect[] = ['1.6', '3']

async function start(dialect: Dialect, documents: number) {
  const { url } = await startService({ dialect })
  const ask = (method: string, path: string, body?: unknown) =>
    fetch(url + path, {
      method,
      headers: { 'Content-Type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  await ask('PUT', 'db')
  await ask('POST', 'db/_bulk_docs', { docs: Array.from({ length: documents }, (_, n) => ({ _id: `${n}`, n })) })
  return { url: url.replace(/\/$/, ''), save: (id: string) => ask('PUT', `db/${id}`, {}) }
}

/** The ids of the batches that come until the feed ends. */
function batches(feed: Emitter): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const ids: string[] = []
    feed.on('batch', (changes: { id: string }[]) => ids.push(...changes.map(({ id }) => id)))
    feed.on('end', () => resolve(ids))
    feed.on('error', reject)
  })
}

describe.each(DIALECTS)('in dialect %s', (dialect) => {
  it('changesreader gets all changes in batches and stops', async () => {
    const { url } = await start(dialect, 1_200)
    const ids = await batches(new ChangesReader('db', url).get({ since: '0', batchSize: 500 }))
    expect(new Set(ids).size).toBe(1_200)
    expect(ids).toHaveLength(1_200)
  })

  it('changesreader spools all changes', async () => {
    const { url } = await start(dialect, 1_200)
    expect(await batches(new ChangesReader('db', url).spool({ since: '0' }))).toHaveLength(1_200)
  })

  it('changesreader waits for changes', async () => {
    const { url, save } = await start(dialect, 20)
    const reader = new ChangesReader('db', url)
    const seen = await new Promise<string[]>((resolve, reject) => {
      const ids: string[] = []
      const feed = reader.start({ since: '0', timeout: 2_000 })
      feed.on('error', reject)
      feed.on('change', ({ id }: { id: string }) => {
        ids.push(id)
        if (ids.length === 20) void save('late')
        if (id === 'late') resolve(ids)
      })
    })
    reader.stop()
    expect(seen).toHaveLength(21)
  })

  it('follow follows', async () => {
    const { url, save } = await start(dialect, 20)
    const feed = new follow.Feed({ db: `${url}/db`, since: 0 })
    const seen = await new Promise<string[]>((resolve, reject) => {
      const ids: string[] = []
      feed.on('error', reject)
      feed.on('change', ({ id }: { id: string }) => {
        ids.push(id)
        if (ids.length === 20) void save('late')
        if (id === 'late') resolve(ids)
      })
      feed.follow()
    })
    feed.stop()
    expect(seen).toHaveLength(21)
  })
})
