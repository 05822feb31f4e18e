/**
 * Black-box tests behind a secondary: the primary is in the process of the test, and every connection of a client goes to a
 * secondary in another process, which all tests of a worker share.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unsharedSockets } from '../../src/http/listeners/listener.ts'
import { createService, type Service, type ServiceOptions } from '../../src/service.ts'
import { takeLease } from '../../src/storage/files/folder-lock.ts'

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
      if (host === this) host = undefined
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

let host: SecondaryHost | undefined

export class ServiceBehindSecondary implements Service {
  readonly secondaries = undefined
  readonly #options: ServiceOptions
  #primary: Service | undefined
  #folder = ''
  #secondary: { readonly host: SecondaryHost; readonly id: number } | undefined
  #url: string | undefined

  constructor(options: ServiceOptions) {
    this.#options = options
  }

  get url(): string {
    if (this.#url === undefined) throw new Error('The service does not listen yet.')
    return this.#url
  }

  get urls(): readonly string[] {
    return [this.url]
  }

  async listen(): Promise<string> {
    const options = this.#options
    this.#folder = await mkdtemp(join(tmpdir(), 'settle-nodes-'))
    const settings = { ...options.settings, service: { ...options.settings?.service, nodes: '2' } }
    this.#primary = await createService({
      ...options,
      settings,
      supervisor: {
        takeLease,
        sockets: unsharedSockets,
        previousEnd: undefined,
        term: 1,
        nodeFolder: this.#folder,
      },
    })
    const { hostname } = new URL(await this.#primary.listen())
    host ??= new SecondaryHost()
    const { id, port } = await host.ask({ kind: 'start', options: { ...options, settings }, folder: this.#folder })
    this.#secondary = { host, id }
    this.#url = `http://${hostname}:${port}/`
    return this.#url
  }

  async close(): Promise<void> {
    const { host: itsHost, id = 0 } = this.#secondary ?? {}
    this.#secondary = undefined
    await itsHost?.ask({ kind: 'stop', secondary: id })
    await this.#primary?.close()
    if (this.#folder !== '') await rm(this.#folder, { recursive: true, force: true })
  }
}
