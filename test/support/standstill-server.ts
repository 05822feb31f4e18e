/** A server in a process of its own that reports how long its event loop was blocked: see `standstill-process.ts`. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from './client.ts'

export interface Standstill {
  /** Processor time of the longest turn. */
  readonly longestMs: number
  readonly rssMb: number
}

export class StandstillServer {
  readonly client: Client
  readonly #child: ChildProcess
  readonly #folder: string

  static async start(): Promise<StandstillServer> {
    const script = join(import.meta.dirname, 'standstill-process.ts')
    const folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
    const child = fork(script, [folder], { execArgv: ['--expose-gc'] })
    const [{ url }] = (await once(child, 'message')) as [{ url: string }]
    return new StandstillServer(child, new Client(url), folder)
  }

  private constructor(child: ChildProcess, client: Client, folder: string) {
    this.#child = child
    this.client = client
    this.#folder = folder
  }

  /** What the server came to while this was done. */
  async during(work: () => Promise<unknown>): Promise<Standstill> {
    await this.#ask('reset')
    await work()
    return this.#ask('report')
  }

  async stop(): Promise<void> {
    await this.client.close()
    if (this.#child.exitCode === null) {
      this.#child.disconnect()
      await once(this.#child, 'exit')
    }
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #ask(what: 'reset' | 'report'): Promise<Standstill> {
    const answer = once(this.#child, 'message')
    this.#child.send(what)
    const [standstill] = (await answer) as [Standstill]
    return standstill
  }
}
