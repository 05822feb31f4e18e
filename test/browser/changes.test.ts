/** What a page in a browser does with the feeds: `EventSource` as browsers have it, and PouchDB as apps load it. */
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { openPage } from '../support/browser.ts'
import { startService } from '../support/service.ts'

const pouchFile = createRequire(import.meta.url).resolve('pouchdb/dist/pouchdb.min.js')

async function put(url: string, path: string, body?: object): Promise<void> {
  const reply = await fetch(url + path, { method: 'PUT', ...(body && { body: JSON.stringify(body) }) })
  expect(reply.status).toBe(201)
}

describe('in a browser', () => {
  it('EventSource receives each change, with its sequence as the id, and continues after a reconnect', async () => {
    const { url } = await startService()
    await put(url, 'things')
    await put(url, 'things/first', {})
    const page = await openPage(url)
    const listening = page.evaluate(
      () =>
        new Promise<{ id: string; sequence: string }[]>((resolve, reject) => {
          const heard: { id: string; sequence: string }[] = []
          const source = new EventSource('/things/_changes?feed=eventsource&since=0')
          source.onmessage = ({ data, lastEventId }) => {
            const change: { id: string } = JSON.parse(data)
            heard.push({ id: change.id, sequence: lastEventId })
            if (heard.length < 3) return
            source.close()
            resolve(heard)
          }
          setTimeout(() => reject(new Error(`Heard only ${JSON.stringify(heard)}.`)), 15_000)
        }),
    )
    await put(url, 'things/second', {})
    await put(url, 'things/third', {})
    expect(await listening).toEqual([
      { id: 'first', sequence: '1' },
      { id: 'second', sequence: '2' },
      { id: 'third', sequence: '3' },
    ])
  })

  it('PouchDB follows live changes, and syncs both ways', async () => {
    const { url } = await startService()
    await put(url, 'things')
    await put(url, 'things/theirs', { from: 'server' })
    const page = await openPage(url)
    await page.addScriptTag({ path: pouchFile })
    const followed = page.evaluate(SYNC_AND_FOLLOW)
    await expect.poll(async () => (await fetch(`${url}things/mine`)).status).toBe(200)
    await put(url, 'things/later', { from: 'server' })
    expect(await followed).toEqual(['later', 'mine', 'theirs'])
  })
})

/** Text, since PouchDB is a global of the page that no type knows. */
const SYNC_AND_FOLLOW = `new Promise((resolve, reject) => {
  const local = new PouchDB('local-things')
  const remote = new PouchDB(location.origin + '/things')
  const seen = new Set()
  remote.changes({ live: true, since: 0 }).on('change', ({ id }) => {
    seen.add(id)
    if (seen.size === 3) local.sync(remote).then(async () => {
      const { rows } = await local.allDocs()
      resolve(rows.map(({ id }) => id).sort())
    }, reject)
  }).on('error', reject)
  local.put({ _id: 'mine', from: 'browser' }).then(() => local.sync(remote)).catch(reject)
  setTimeout(() => reject(new Error('Seen only ' + [...seen])), 20000)
})`
