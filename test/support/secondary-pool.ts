/**
 * A server of several nodes for black-box tests: the primary is in the process of the test, each secondary in another process,
 * which all tests of a worker share. That costs far less than processes of their own. Either every connection of a client goes
 * to a secondary, or connections go to all nodes in turn.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unsharedSockets } from '../../src/http/listeners/listener.ts'
import { createService, type Service, type ServiceOptions } from '../../src/service.ts'
import { takeLease } from '../../src/storage/files/folder-lock.ts'
import { Balancer } from './balancer.ts'

export type HostMessage =
  | { readonly kind: 'start'; readonly id: number; readonly options: ServiceOptions; readonly folder: string }
  | { readonly kind: 'stop'; readonly id: number; readonly secondary: number }

export interface HostReply {
  readonly id: number
  readonly port?: number
  readonly error?: string
}

type Unnumbered<Message> = Message extends unknown ? Omit<Message, 'id'> : never

class SecondaryHost {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (reply: HostReply) => void>()
  #lastId = 0

  constructor() {
    this.#child = fork(join(import.meta.dirname, 'secondary-host.ts'), [], { execArgv: [] })
    this.#child.on('message', (reply: HostReply) => {
      this.#waiting.get(reply.id)?.(reply)
      this.#waiting.delete(reply.id)
    })
    this.#child.once('exit', () => {
      for (const [id, answer] of this.#waiting) answer({ id, error: 'The process of the secondaries ended.' })
      const place = hosts.indexOf(this)
      if (place >= 0) delete hosts[place]
    })
    // It ends with this process, and does not keep it.
    this.#child.unref()
    this.#child.channel?.unref()
  }

  async ask(message: Unnumbered<HostMessage>): Promise<HostReply> {
    const id = ++this.#lastId
    this.#child.channel?.ref()
    const reply = await new Promise<HostReply>((resolve) => {
      this.#waiting.set(id, resolve)
      this.#child.send({ ...message, id })
    })
    if (this.#waiting.size === 0) this.#child.channel?.unref()
    if (reply.error !== undefined) throw new Error(reply.error)
    return reply
  }
}

/** One for the first secondary of each server, one for the second, and so on. */
const hosts: SecondaryHost[] = []

function hostOf(place: number): SecondaryHost {
  const host = hosts[place] ?? new SecondaryHost()
  hosts[place] = host
  return host
}

export interface PooledNodes {
  readonly secondaries: number
  /** Whether clients meet the primary too. */
  readonly withPrimary: boolean
}

export class PooledService implements Service {
  readonly secondaries = undefined
  readonly #options: ServiceOptions
  #primary: Service | undefined
  #folder = ''
  readonly #nodes: PooledNodes
  readonly #started: { readonly host: SecondaryHost; readonly id: number; readonly url: string }[] = []
  #balancer: Balancer | undefined

  constructor(options: ServiceOptions, nodes: PooledNodes) {
    this.#options = options
    this.#nodes = nodes
  }

  get url(): string {
    if (!this.#balancer) throw new Error('The service does not listen yet.')
    return this.#balancer.url
  }

  get urls(): readonly string[] {
    return [this.url]
  }

  async listen(): Promise<string> {
    const options = this.#options
    this.#folder = await mkdtemp(join(tmpdir(), 'settle-nodes-'))
    const { secondaries, withPrimary } = this.#nodes
    const nodes = String(1 + secondaries)
    const settings = { ...options.settings, service: { ...options.settings?.service, nodes } }
    this.#primary = await createService({
      ...options,
      port: 0,
      settings,
      supervisor: {
        takeLease,
        sockets: unsharedSockets,
        previousEnd: undefined,
        term: 1,
        nodeFolder: this.#folder,
      },
    })
    const own = await this.#primary.listen()
    const { hostname } = new URL(own)
    for (let place = 0; place < secondaries; place++) {
      const host = hostOf(place)
      const { id, port } = await host.ask({
        kind: 'start',
        options: { ...options, settings, port: 0 },
        folder: this.#folder,
      })
      this.#started.push({ host, id, url: `http://${hostname}:${port}/` })
    }
    const urls = [...this.#started.map(({ url }) => url), ...(withPrimary ? [own] : [])]
    this.#balancer = new Balancer(() => urls)
    await this.#balancer.listen(options.port ?? 0)
    return this.url
  }

  async close(): Promise<void> {
    await Promise.all(this.#started.splice(0).map(({ host, id }) => host.ask({ kind: 'stop', secondary: id })))
    await this.#primary?.close()
    this.#balancer?.close()
    if (this.#folder !== '') await rm(this.#folder, { recursive: true, force: true })
  }
}
