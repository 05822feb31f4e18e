/** A file that is damaged costs its own database and no other, whatever is wrong with it. */
import { cpSync, readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type Damage,
  damage,
  FATAL_DAMAGES,
  HARMLESS_DAMAGES,
  scrambleLeaves,
} from '../../storage/file-check/damages.ts'
import { ServerProcess } from '../server-process.ts'

const DOCUMENTS = 150
const FATAL = Object.entries(FATAL_DAMAGES)
const HARMLESS = Object.entries(HARMLESS_DAMAGES)

/** One for each kind of damage to its file, or to that of its index. */
const DATABASES = [
  'whole',
  ...FATAL.flatMap((_, i) => [`fatal${i}`, `index${i}`]),
  ...HARMLESS.map((_, i) => `harmless${i}`),
]

let folder: string
let template: string
let copies = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'settle-damage-'))
  template = join(folder, 'template')
  const server = new ServerProcess(template)
  const client = new Client((await server.url())!)
  await Promise.all(DATABASES.map((name) => fill(client, name)))
  await client.ask('PUT', '_users/org.couchdb.user:joe', { name: 'joe', password: 'x', roles: [], type: 'user' })
  await server.stop()
}, 120_000)

afterAll(async () => rm(folder, { recursive: true, force: true }))

async function fill(client: Client, database: string): Promise<void> {
  await client.ask('PUT', database)
  const docs = Array.from({ length: DOCUMENTS }, (_, n) => ({
    _id: `d${n}`,
    n,
    text: 'x'.repeat(n % 10 === 0 ? 9000 : 200),
  }))
  await client.ask('POST', `${database}/_bulk_docs`, { docs })
  await client.ask('PUT', `${database}/_design/v`, {
    views: { n: { map: 'function (doc) { emit(doc.n, doc.text) }' } },
  })
  // The others are asked for theirs only when their own file is damaged, or have it built then.
  if (database.startsWith('index')) await client.ask('GET', `${database}/_design/v/_view/n?limit=0`)
  // The meta page before the last one knows of all that is looked for.
  await client.ask('PUT', `${database}/last`, {})
}

class Client {
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  async ask(method: string, path: string, body?: object): Promise<{ status: number; body: unknown }> {
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(new URL(path, this.#url), {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json() }
  }
}

/** Runs a server on data of which some files are damaged; gives what it complained of. */
async function withDamaged(
  damages: readonly (readonly [file: RegExp, how: Damage])[],
  use: (client: Client) => Promise<void>,
): Promise<string> {
  const copied = join(folder, `copy-${copies++}`)
  cpSync(template, copied, { recursive: true })
  const files = readdirSync(copied, { recursive: true, encoding: 'utf8' })
  for (const [pattern, how] of damages) damage(join(copied, files.find((each) => pattern.test(each))!), how)
  const server = new ServerProcess(copied)
  try {
    const url = await server.url()
    expect(url, server.complaints).toBeDefined()
    const client = new Client(url!)
    await use(client)
    expect((await client.ask('GET', 'whole/d7')).status).toBe(200)
    expect((await client.ask('PUT', 'whole/new', {})).status).toBe(201)
    expect((await client.ask('GET', '_all_dbs')).body).toEqual(['_replicator', '_users', ...DATABASES.toSorted()])
    expect((await client.ask('GET', '_dbs_info')).status).toBe(200)
    expect(server.endedByItself).toBe(false)
  } finally {
    await server.stop()
  }
  return server.complaints
}

async function expectRefused(client: Client, method: string, path: string, body?: object): Promise<void> {
  const { status, body: told } = await client.ask(method, path, body)
  const reason = expect.stringMatching(`^The file ${path.split('/')[0]}\\.\\d+\\.mdb is damaged\\. .+\\.$`)
  expect({ status, told }, path).toEqual({ status: 500, told: { error: 'file_corrupted', reason } })
}

describe('the server continues', () => {
  it('with databases that are damaged in every way, names them, and lets them be deleted', async () => {
    const damages = FATAL.map(([, how], i) => [new RegExp(`^fatal${i}\\.\\d+\\.mdb$`), how] as const)
    const complaints = await withDamaged(damages, async (client) => {
      for (const [i] of FATAL.entries()) {
        const name = `fatal${i}`
        await expectRefused(client, 'GET', name)
        await expectRefused(client, 'GET', `${name}/d7`)
        await expectRefused(client, 'PUT', `${name}/new`, {})
        await expectRefused(client, 'GET', `${name}/_all_docs?include_docs=true`)
        await expectRefused(client, 'GET', `${name}/_design/v/_view/n`)
        await expectRefused(client, 'GET', `${name}/_changes`)
        expect((await client.ask('DELETE', name)).status).toBe(200)
        expect((await client.ask('PUT', name)).status).toBe(201)
        expect((await client.ask('GET', name)).body).toMatchObject({ doc_count: 0 })
      }
    })
    for (const [i] of FATAL.entries()) expect(complaints).toMatch(new RegExp(`cannot be used\\. file=".*fatal${i}\\.`))
  }, 60_000)

  it('with indexes that are damaged in every way, and rebuilds them', async () => {
    const damages = FATAL.map(([, how], i) => [new RegExp(`index${i}%2F.*\\.mdb$`), how] as const)
    const complaints = await withDamaged(damages, async (client) => {
      for (const [i] of FATAL.entries()) {
        const { status, body } = await client.ask('GET', `index${i}/_design/v/_view/n`)
        expect(status).toBe(200)
        expect(body).toMatchObject({ total_rows: DOCUMENTS + 1, rows: { length: DOCUMENTS + 1 } })
      }
    })
    for (const [i] of FATAL.entries()) expect(complaints).toMatch(new RegExp(`index was removed.*index="index${i}/`))
  }, 60_000)

  it('as if nothing had happened with databases of which one meta page is left', async () => {
    const damages = HARMLESS.map(([, how], i) => [new RegExp(`^harmless${i}\\.\\d+\\.mdb$`), how] as const)
    const complaints = await withDamaged(damages, async (client) => {
      for (const [i] of HARMLESS.entries()) {
        expect((await client.ask('GET', `harmless${i}/d7`)).status).toBe(200)
        expect((await client.ask('GET', `harmless${i}/_design/v/_view/n?limit=1`)).status).toBe(200)
        expect((await client.ask('PUT', `harmless${i}/new`, {})).status).toBe(201)
      }
    })
    for (const [i] of HARMLESS.entries()) expect(complaints).toMatch(new RegExp(`repaired.*harmless${i}\\.`))
  }, 60_000)

  it('without its own databases when they are damaged, each in another way', async () => {
    const damages = [
      [/^_users\.\d+\.mdb$/, FATAL_DAMAGES['truncated to half']!],
      [/^_replicator\.\d+\.mdb$/, FATAL_DAMAGES['with a zeroed beginning']!],
    ] as const
    await withDamaged(damages, async (client) => {
      await expectRefused(client, 'GET', '_replicator')
      await expectRefused(client, 'GET', '_users/org.couchdb.user:joe')
      const login = await client.ask('POST', '_session', { name: 'joe', password: 'x' })
      expect(login).toMatchObject({ status: 500, body: { error: 'file_corrupted' } })
      expect((await client.ask('DELETE', '_users')).status).toBe(200)
      expect((await client.ask('POST', '_session', { name: 'joe', password: 'x' })).status).toBe(401)
    })
  }, 60_000)

  it('after a fall over pages in the middle of a file, which is set aside', async () => {
    const told = await askUntilAnswered(/^fatal0\.\d+\.mdb$/, 'fatal0/_all_docs?include_docs=true')
    const reason = expect.stringMatching(/It is set aside: .* remove fatal0\.\d+\.mdb\.set-aside/)
    expect(told).toEqual({ status: 500, body: { error: 'file_corrupted', reason } })
  }, 120_000)

  it('after a crash on pages in the middle of an index, which is rebuilt', async () => {
    const told = await askUntilAnswered(/index0%2F.*\.mdb$/, 'index0/_design/v/_view/n')
    expect(told).toMatchObject({ status: 200, body: { total_rows: DOCUMENTS + 1, rows: { length: DOCUMENTS + 1 } } })
  }, 120_000)
})

const MOST_STARTS = 5

/** Starts the server again for as long as the request ends it, as the supervisor does. */
async function askUntilAnswered(file: RegExp, path: string): Promise<unknown> {
  const copied = join(folder, `copy-${copies++}`)
  cpSync(template, copied, { recursive: true })
  const files = readdirSync(copied, { recursive: true, encoding: 'utf8' })
  damage(join(copied, files.find((each) => file.test(each))!), scrambleLeaves)
  for (let start = 0; start < MOST_STARTS; start++) {
    const server = new ServerProcess(copied)
    try {
      const client = new Client((await server.url())!)
      const told = await client.ask('GET', path).catch(() => undefined)
      // What the library noticed by itself is answered, and what it did not is found out at the next start.
      const isFinal = told?.status === 200 || JSON.stringify(told?.body).includes('set aside')
      if (isFinal) {
        expect((await client.ask('GET', 'whole/d7')).status).toBe(200)
        return told
      }
    } finally {
      await server.kill()
    }
  }
  return undefined
}
