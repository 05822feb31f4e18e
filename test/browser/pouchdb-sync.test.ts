/** PouchDB in a page of a real browser, in two-way live sync with attachments and conflicts, as offline applications use it. */
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { openPage } from '../support/browser.ts'
import { startService } from '../support/service.ts'

const pouchFile = createRequire(import.meta.url).resolve('pouchdb/dist/pouchdb.min.js')

const POLL = { interval: 50 }

async function send(method: string, url: string, body?: string | Uint8Array<ArrayBuffer>): Promise<{ rev: string }> {
  const reply = await fetch(url, { method, ...(body !== undefined && { body }) })
  const text = await reply.text()
  expect(reply.status, text).toBe(201)
  return JSON.parse(text)
}

describe('PouchDB in a browser', () => {
  it('syncs live both ways, with attachments and conflicts', async () => {
    const { url } = await startService()
    const database = `${url}things`
    await send('PUT', database)
    const { rev } = await send('PUT', `${database}/both`, '{"by":"server"}')
    await send('PUT', `${database}/theirs`, '{"by":"server"}')
    const page = await openPage(url)
    await page.addScriptTag({ path: pouchFile })
    await page.evaluate(FIRST_SYNC)
    // Offline, both sides edit the same document: that of the page is made later by its own clock, and longer.
    await page.evaluate(EDIT_OFFLINE)
    await send('PUT', `${database}/both`, JSON.stringify({ _rev: rev, by: 'server again' }))
    await page.evaluate(GO_ONLINE)
    const read = async (path: string): Promise<{ _rev: string; _conflicts?: string[] }> => {
      return JSON.parse(await (await fetch(`${database}/${path}`)).text())
    }
    await expect.poll(async () => (await read('both?conflicts=true'))._conflicts?.length, POLL).toBe(1)
    const picture = new Uint8Array(await (await fetch(`${database}/mine/picture.png`)).arrayBuffer())
    expect([picture.length, picture[0], picture.at(-1)]).toEqual([50_000, 7, 7])
    // While it is online, the server's edits arrive in the page.
    const content = new Uint8Array(80_000).fill(9)
    await send('PUT', `${database}/later/a.bin`, content)
    const { winner, conflicts, attachment } = (await page.evaluate(WAIT_FOR_LATER)) as Record<string, unknown>
    const there = await read('both?conflicts=true')
    expect([winner, conflicts]).toEqual([there._rev, there._conflicts])
    expect(attachment).toEqual([80_000, 9])
    // The page ends the conflict.
    await page.evaluate(RESOLVE)
    await expect.poll(async () => (await read('both?conflicts=true'))._conflicts, POLL).toBeUndefined()
  })
})

/** Texts, since PouchDB is a global of the page that no type knows. */
const FIRST_SYNC = `(async () => {
  window.local = new PouchDB('local-things')
  window.remote = new PouchDB(location.origin + '/things')
  await local.sync(remote)
})()`

const EDIT_OFFLINE = `(async () => {
  const both = await local.get('both')
  const { rev } = await local.put({ ...both, by: 'page' })
  await local.put({ ...both, _rev: rev, by: 'page again' })
  const picture = new Blob([new Uint8Array(50000).fill(7)], { type: 'image/png' })
  await local.put({ _id: 'mine', _attachments: { 'picture.png': { content_type: 'image/png', data: picture } } })
})()`

const GO_ONLINE = `(() => {
  window.live = local.sync(remote, { live: true, retry: true })
})()`

const WAIT_FOR_LATER = `new Promise((resolve, reject) => {
  const look = async () => {
    const blob = await local.getAttachment('later', 'a.bin').catch(() => undefined)
    const both = await local.get('both', { conflicts: true })
    if (!blob || !both._conflicts) return setTimeout(look, 50)
    const bytes = new Uint8Array(await blob.arrayBuffer())
    resolve({ winner: both._rev, conflicts: both._conflicts, attachment: [bytes.length, bytes[bytes.length - 1]] })
  }
  look().catch(reject)
  setTimeout(() => reject(new Error('It did not arrive.')), 20000)
})`

const RESOLVE = `(async () => {
  const { _conflicts } = await local.get('both', { conflicts: true })
  for (const rev of _conflicts) await local.remove('both', rev)
})()`
