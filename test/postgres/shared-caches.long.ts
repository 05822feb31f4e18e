/**
 * Three servers that lose messages and connections at random, and of which one is started anew: what was acknowledged of
 * settings, users and rights counts in every server that answers. SETTLE_CACHES_SECONDS says for how long.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import type { Service } from '../../src/service.ts'
import { Client, type Reply, type RequestOptions } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { PostgresProxy } from '../support/postgres-proxy.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SECONDS = Number(process.env.SETTLE_CACHES_SECONDS ?? 120)
const LONGEST_FAULT_MS = 2500
const settings = {
  admins: { root: 'secret' },
  service: { engine_lease: '1500' },
  service_httpd_auth: { iterations: '10' },
}

function as(name: string): { readonly headers: Record<string, string> } {
  return { headers: { Authorization: `Basic ${Buffer.from(`${name}:secret`).toString('base64')}` } }
}

const root = as('root')

/** One of the servers, behind a proxy of its own. */
class FaultyServer {
  readonly #engine: string
  readonly #proxy: PostgresProxy
  #running: { readonly service: Service; readonly client: Client } | undefined

  static async start(engine: string, proxy: PostgresProxy): Promise<FaultyServer> {
    const server = new FaultyServer(engine, proxy)
    await server.#start()
    return server
  }

  private constructor(engine: string, proxy: PostgresProxy) {
    this.#engine = engine
    this.#proxy = proxy
  }

  /** Its first reply that does not say that it is not available. */
  async answer(method: string, path: string, options: RequestOptions): Promise<Reply> {
    for (;;) {
      const reply = await this.#running?.client.request(method, path, options).catch(() => undefined)
      if (reply && reply.status !== 503) return reply
      await pause(20)
    }
  }

  async fail(): Promise<void> {
    const kind = Math.floor(Math.random() * 4)
    if (kind === 0) await this.#proxy.cutMessages()
    else if (kind === 1) {
      this.#proxy.stall(true)
      await pause(Math.random() * LONGEST_FAULT_MS)
      this.#proxy.stall(false)
    } else if (kind === 2) {
      this.#proxy.freeze()
      await pause(Math.random() * LONGEST_FAULT_MS)
      this.#proxy.thaw()
    } else await this.#restart()
  }

  async #restart(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    await running?.service.close()
    running?.client.close()
    await this.#start()
  }

  async #start(): Promise<void> {
    const service = await startService({ dir: await temporaryFolder(), engine: this.#engine, settings })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    this.#running = { service, client }
  }
}

describeOnPostgres('settings, users and rights', () => {
  it('count in every server once they are acknowledged, whatever fails', async () => {
    const postgres = await sharedPostgres()
    const schema = new URL(postgres.address()).searchParams.get('schema') ?? undefined
    const start = async () => {
      const proxy = await PostgresProxy.open(postgres.socket)
      onTestFinished(() => proxy.close())
      return FaultyServer.start(postgres.address(schema, proxy.folder), proxy)
    }
    const servers = [await start(), await start(), await start()]
    const any = () => servers[Math.floor(Math.random() * servers.length)]!
    const all = (path: string, options: RequestOptions) =>
      Promise.all(servers.map((server) => server.answer('GET', path, options)))
    await any().answer('PUT', '/db', root)
    const endMs = performance.now() + SECONDS * 1000
    const isOver = () => performance.now() > endMs

    const fail = async () => {
      while (!isOver()) {
        await pause(Math.random() * 800)
        await any().fail()
      }
    }
    const changeSetting = async (key: string) => {
      for (let round = 0; !isOver(); round++) {
        const path = `/_config/some/${key}`
        const changed = await any().answer('PUT', path, { ...root, body: JSON.stringify(`${round}`) })
        expect(changed.status, changed.text).toBe(200)
        expect((await all(path, root)).map(({ json }) => json)).toEqual(servers.map(() => `${round}`))
      }
    }
    const changeRights = async () => {
      for (let round = 0; !isOver(); round++) {
        const name = `user-${round}`
        const body = { name, type: 'user', roles: [], password: 'secret' }
        const written = await any().answer('PUT', `/_users/org.couchdb.user:${name}`, { ...root, body })
        // A request that was answered with 503 may have been carried out.
        expect([201, 409], written.text).toContain(written.status)
        for (const { status } of await all('/_session', as(name))) expect(status).toBe(200)
        const security = { members: { names: [name] } }
        expect((await any().answer('PUT', '/db/_security', { ...root, body: security })).status).toBe(200)
        for (const { status } of await all('/db', as(name))) expect(status).toBe(200)
        if (round === 0) continue
        for (const { status } of await all('/db', as(`user-${round - 1}`))) expect(status).toBe(401)
      }
    }
    await Promise.all([fail(), changeSetting('a'), changeSetting('b'), changeRights()])
  })
})
