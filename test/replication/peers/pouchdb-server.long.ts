/** pouchdb-server as a remote peer, for push and pull; it is installed into `bench/peer` when it is not there. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { startPouchdbServer } from '../../../bench/servers.ts'
import { Random } from '../../crash/random.ts'
import { startService } from '../../support/service.ts'
import { RandomEdits } from '../faults/random-edits.ts'

/** What this server and pouchdb-server can be compared by: live documents with their winners, conflicts and contents. */
async function contents(url: string): Promise<Record<string, unknown>> {
  const read = async (path: string) => JSON.parse(await (await fetch(`${url}${path}`, { headers: JSON_WANTED })).text())
  // Its `_all_docs` leaves out ids that begin beyond U+FFFF.
  const { results } = (await read('/_changes')) as { results: { id: string; deleted?: boolean }[] }
  const found: [string, unknown][] = []
  for (const { id } of results.filter(({ deleted }) => !deleted)) {
    const path = id.startsWith('_design/') ? id : encodeURIComponent(id)
    const { _attachments = {}, ...document } = await read(`/${path}?conflicts=true&attachments=true`)
    const attachments = Object.entries(_attachments as Record<string, { data: string }>).map(([name, { data }]) => {
      return `${name} ${data}`
    })
    found.push([id, { ...document, attachments: attachments.sort() }])
  }
  return Object.fromEntries(found.sort(([a], [b]) => (a < b ? -1 : 1)))
}

const JSON_WANTED = { Accept: 'application/json' }

async function replicate(url: string, body: object): Promise<Record<string, unknown>> {
  const headers = { 'Content-Type': 'application/json' }
  const reply = await fetch(`${url}_replicate`, { method: 'POST', headers, body: JSON.stringify(body) })
  const text = await reply.text()
  expect(reply.status, text).toBe(200)
  return JSON.parse(text)
}

describe('pouchdb-server as a peer', () => {
  it('is pushed to and pulled from, with conflicts and attachments', async () => {
    const peer = await startPouchdbServer()
    onTestFinished(() => peer.process.stop())
    const { url } = await startService()
    for (const base of [url, peer.url]) await fetch(`${base}things`, { method: 'PUT' })
    await fetch(`${url}back`, { method: 'PUT' })
    const edits = new RandomEdits(new Random(), { edits: 120, documents: 30, largestBytes: 60_000 })
    await edits.run(`${url}things`)
    await replicate(url, { source: 'things', target: `${peer.url}things` })
    expect(await contents(`${peer.url}things`)).toEqual(await contents(`${url}things`))
    await replicate(url, { source: `${peer.url}things`, target: 'back' })
    expect(await contents(`${url}back`)).toEqual(await contents(`${peer.url}things`))
    // Nothing new: it is found out from the logs.
    const again = await replicate(url, { source: `${peer.url}things`, target: 'back' })
    expect(again).toMatchObject({ no_changes: true })
  })

  it('replicates by itself from and to this server', async () => {
    const peer = await startPouchdbServer()
    onTestFinished(() => peer.process.stop())
    const { url } = await startService()
    await fetch(`${url}things`, { method: 'PUT' })
    await new RandomEdits(new Random(), { edits: 60, documents: 20 }).run(`${url}things`)
    await replicate(peer.url, { source: `${url}things`, target: `${peer.url}copy`, create_target: true })
    await replicate(peer.url, { source: `${peer.url}copy`, target: `${url}again`, create_target: true })
    expect(await contents(`${url}again`)).toEqual(await contents(`${url}things`))
  })
})
