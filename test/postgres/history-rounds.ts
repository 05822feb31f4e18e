/**
 * Three servers on one PostgreSQL, each behind a proxy of its own, and what can happen to them while clients keep a history:
 * servers are killed or cut off from PostgreSQL, which restarts or fails over to a standby.
 */
import type { ChildProcess } from 'node:child_process'
import { onTestFinished } from 'vitest'
import { History, type HistoryOptions } from '../nodes/history.ts'
import { Client } from '../support/client.ts'
import { TestPostgres } from '../support/postgres.ts'
import { PostgresProxy } from '../support/postgres-proxy.ts'
import { until } from '../support/until.ts'
import { startProcess } from './fault-rounds.ts'
import { ownWork } from './own-work.ts'

export type Fault = 'kill' | 'cut off' | 'restart' | 'crash' | 'failover'

export interface HistoryRounds {
  readonly faults: readonly Fault[]
  /** Edits that must be acknowledged before each fault and after the last one. */
  readonly acknowledgedBetween: number
  readonly clients?: Pick<HistoryOptions, 'writers' | 'readers' | 'feeds'>
}

interface Server {
  readonly proxy: PostgresProxy
  url: string
  child: ChildProcess
}

const SERVERS = 3
const QUICK_LEASES = { SETTLE_SERVICE__ENGINE_LEASE: '2000' }
const DATABASE = 'history'
const COPY = 'copy'

/** Plays the faults one after the other. A replication of the database runs in one of the servers all the time. */
export async function playFaults({ faults, acknowledgedBetween, clients }: HistoryRounds): Promise<History> {
  const servers = await FaultyServers.start()
  const history = new History({ urls: () => servers.urls, database: DATABASE, ...clients })
  await history.begin()
  await servers.replicate()
  for (const fault of faults) {
    await history.progress(acknowledgedBetween)
    if (history.problems.length > 0) break
    await servers.play(fault)
  }
  await history.progress(acknowledgedBetween)
  await history.end()
  if (history.problems.length === 0) history.problems.push(...(await servers.copyProblems()))
  return history
}

class FaultyServers {
  #postgres: TestPostgres
  readonly #servers: readonly Server[]
  #faults = 0

  static async start(): Promise<FaultyServers> {
    const postgres = await TestPostgres.start()
    onTestFinished(() => postgres.remove())
    const servers = await Promise.all(
      Array.from({ length: SERVERS }, async () => {
        const proxy = await PostgresProxy.open(postgres.socket)
        onTestFinished(() => proxy.close())
        return { proxy, ...(await startProcess(postgres.address('history', proxy.folder), QUICK_LEASES)) }
      }),
    )
    return new FaultyServers(postgres, servers)
  }

  private constructor(postgres: TestPostgres, servers: readonly Server[]) {
    this.#postgres = postgres
    this.#servers = servers
  }

  get urls(): readonly string[] {
    return this.#servers.map(({ url }) => url)
  }

  /** Copies the database for as long as the servers run. One of them does it at a time. */
  async replicate(): Promise<void> {
    const body = { source: DATABASE, target: COPY, continuous: true, create_target: true }
    const [server] = this.#servers
    await this.#ask(server!, 'PUT', '/_replicator/copy', body)
    await this.#replicating(() => true)
  }

  play(fault: Fault): Promise<void> {
    this.#faults++
    switch (fault) {
      case 'kill':
        return this.#kill()
      case 'cut off':
        return this.#cutOff()
      case 'restart':
        return this.#restart('SIGINT')
      case 'crash':
        return this.#restart('SIGQUIT')
      case 'failover':
        return this.#failOver()
    }
  }

  /** The replication has copied every document, whichever server did it. */
  async copyProblems(): Promise<string[]> {
    const [server] = this.#servers
    const listing = (database: string) => this.#ask(server!, 'GET', `/${database}/_all_docs`)
    const all = await listing(DATABASE)
    await until(async () => (await listing(COPY)) === all).catch(() => {})
    return (await listing(COPY)) === all ? [] : ['The copy is not the same as the database.']
  }

  async #kill(): Promise<void> {
    const server = this.#servers[this.#faults % SERVERS]!
    const exited = new Promise((resolve) => server.child.once('exit', resolve))
    server.child.kill('SIGKILL')
    await exited
    const { url, child } = await startProcess(this.#postgres.address('history', server.proxy.folder), QUICK_LEASES)
    server.url = url
    server.child = child
  }

  /** The server that replicates: another one takes over before it is back. */
  async #cutOff(): Promise<void> {
    const server = await this.#replicating(() => true)
    server.proxy.freeze()
    await this.#replicating((other) => other !== server)
    server.proxy.thaw()
  }

  async #restart(signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
    await this.#postgres.halt(signal)
    await this.#everybodyRefuses()
    await this.#postgres.resume()
  }

  async #failOver(): Promise<void> {
    const standby = await TestPostgres.standbyOf(this.#postgres)
    onTestFinished(() => standby.remove())
    await this.#postgres.halt('SIGQUIT')
    await this.#everybodyRefuses()
    for (const { proxy } of this.#servers) proxy.redirect(standby.socket)
    standby.promote()
    this.#postgres = standby
  }

  async #everybodyRefuses(): Promise<void> {
    for (const server of this.#servers) {
      await until(async () => (await this.#status(server, `/${DATABASE}/_all_docs?limit=1`)) === 503)
    }
  }

  /** The server that has the replication, when one of these has it. */
  async #replicating(isPossible: (server: Server) => boolean): Promise<Server> {
    const possible = this.#servers.filter(isPossible)
    let found: Server | undefined
    await until(async () => {
      const jobs = await Promise.all(possible.map((server) => this.#ask(server, 'GET', '/_scheduler/jobs')))
      found = possible.find((_, i) => ownWork(JSON.parse(jobs[i] ?? '{"jobs":[]}').jobs).length > 0)
      return found !== undefined
    })
    return found!
  }

  /** The text of a reply without an error. */
  async #ask(server: Server, method: string, path: string, body?: unknown): Promise<string | undefined> {
    const client = new Client(server.url)
    try {
      const reply = await client.request(method, path, { body })
      return reply.status < 300 ? reply.text : undefined
    } catch {
      return undefined
    } finally {
      client.close()
    }
  }

  async #status(server: Server, path: string): Promise<number> {
    const client = new Client(server.url)
    const reply = await client.request('GET', path).finally(() => client.close())
    return reply.status
  }
}
