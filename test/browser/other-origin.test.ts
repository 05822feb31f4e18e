/** A page of another origin that uses the server as the logged-in user, as browser applications do. */
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openPage } from '../support/browser.ts'
import { startService } from '../support/service.ts'

const pouchFile = createRequire(import.meta.url).resolve('pouchdb/dist/pouchdb.min.js')

/** The address of a server that has nothing but an empty page. */
async function otherOrigin(): Promise<string> {
  const server = createServer((_, reply) => {
    reply.setHeader('Content-Type', 'text/html').end('<!doctype html><title>Elsewhere</title>')
  })
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server has no port.')
  return `http://127.0.0.1:${address.port}/`
}

const OPEN = { origins: '*', credentials: 'true' }

async function pageElsewhere(cors: Record<string, string>) {
  const settings = { httpd: { enable_cors: 'true' }, cors, admins: { root: 'top' } }
  const { url } = await startService({ settings })
  const reply = await fetch(`${url}things`, { method: 'PUT', headers: { Authorization: `Basic ${btoa('root:top')}` } })
  expect(reply.status).toBe(201)
  const page = await openPage(await otherOrigin())
  await page.addScriptTag({ path: pouchFile })
  return { url, page }
}

/** Texts, since PouchDB is a global of the page that no type knows. */
const LOG_IN = `fetch(server + '_session', {
  method: 'POST',
  credentials: 'include',
  headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
  body: 'name=root&password=top',
}).then((reply) => reply.status, () => 'refused')`

const USE = `(async () => {
  const remote = new PouchDB(server + 'things')
  const local = new PouchDB('local-things')
  await local.put({ _id: 'mine' })
  await local.sync(remote)
  const { userCtx } = await fetch(server + '_session', { credentials: 'include' }).then((reply) => reply.json())
  return [userCtx.name, (await remote.get('mine'))._id]
})()`

describe('a page of another origin', () => {
  it('acts as the user where credentials are for any origin', async () => {
    const { url, page } = await pageElsewhere({ ...OPEN, credentials_for_any_origin: 'true' })
    await page.evaluate(`window.server = ${JSON.stringify(url)}`)
    expect(await page.evaluate(LOG_IN)).toBe(200)
    expect(await page.evaluate(USE)).toEqual(['root', 'mine'])
  })

  it('is blocked by the browser where they are not', async () => {
    const { url, page } = await pageElsewhere(OPEN)
    await page.evaluate(`window.server = ${JSON.stringify(url)}`)
    expect(await page.evaluate(LOG_IN)).toBe('refused')
    const anonymous = `fetch(server).then((reply) => reply.json()).then(({ couchdb }) => couchdb)`
    expect(await page.evaluate(anonymous)).toBe('Welcome')
  })
})
