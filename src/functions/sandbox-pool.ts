/**
 * The sandbox processes: as many as are needed at a time, up to a limit, kept warm for a while. Who finds none free waits,
 * and owners take turns. A program goes to a process that knows it already, if there is one.
 */
import { RequestError } from '../document/request-error.ts'
import type { Log } from '../runtime/log.ts'
import { FairQueue } from './fair-queue.ts'
import type { Run } from './functions.ts'
import { SandboxProcess } from './sandbox-process.ts'

export interface SandboxPoolOptions {
  readonly log: Log
  /** How many there may be now. */
  readonly limit: () => number
}

interface Waiter {
  readonly owner: string
  readonly programKey: string
  serve(sandbox: SandboxProcess): void
  refuse(error: Error): void
}

const IDLE_LIMIT_MS = 60_000
const MOST_WAITING = 10_000
const WATCH_MS = 50

export class SandboxPool {
  readonly #options: SandboxPoolOptions
  readonly #waiting = new FairQueue<Waiter>()
  /** The one that was used last is at the end. */
  readonly #idle = new Map<SandboxProcess, number>()
  readonly #busy = new Map<SandboxProcess, string>()
  #watch: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: SandboxPoolOptions) {
    this.#options = options
  }

  /** How many processes there are. */
  get size(): number {
    return this.#idle.size + this.#busy.size
  }

  /** A process that is to be given back, whatever becomes of it. */
  take({ owner, signal }: Run, programKey: string): Promise<SandboxProcess> {
    signal?.throwIfAborted()
    if (this.#isClosed) return Promise.reject(closed())
    if (this.#waiting.size >= MOST_WAITING) return Promise.reject(tooMany())
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        if (this.#waiting.remove(owner, waiter)) reject(signal?.reason)
      }
      const settle = (action: () => void) => {
        signal?.removeEventListener('abort', giveUp)
        action()
      }
      const waiter: Waiter = {
        owner,
        programKey,
        serve: (sandbox) => settle(() => resolve(sandbox)),
        refuse: (error) => settle(() => reject(error)),
      }
      signal?.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(owner, waiter)
      this.#serve()
    })
  }

  giveBack(sandbox: SandboxProcess): void {
    if (!this.#busy.delete(sandbox)) return
    sandbox.release()
    if (this.#isClosed || sandbox.isBusy) sandbox.kill('closed')
    else if (sandbox.isRunning) this.#idle.set(sandbox, performance.now())
    this.#serve()
  }

  /** Resolves when all are gone; calls that are under way fail. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#watch)
    for (let waiter = this.#waiting.shift(); waiter; waiter = this.#waiting.shift()) waiter.refuse(closed())
    const all = [...this.#idle.keys(), ...this.#busy.keys()]
    this.#idle.clear()
    for (const sandbox of all) {
      sandbox.hold()
      sandbox.kill('closed')
    }
    await Promise.all(all.map((sandbox) => sandbox.exited))
  }

  #serve(): void {
    while (this.#waiting.size > 0 && (this.#idle.size > 0 || this.size < this.#options.limit())) {
      const waiter = this.#waiting.shift()
      if (!waiter) return
      const sandbox = this.#idleFor(waiter.programKey) ?? new SandboxProcess(this.#options.log)
      this.#busy.set(sandbox, waiter.owner)
      sandbox.hold()
      this.#watch ??= setInterval(() => this.#look(), WATCH_MS).unref()
      waiter.serve(sandbox)
    }
  }

  #idleFor(programKey: string): SandboxProcess | undefined {
    let chosen: SandboxProcess | undefined
    for (const sandbox of this.#idle.keys()) {
      // One that ended while nobody looked is no use.
      if (!sandbox.isRunning) this.#idle.delete(sandbox)
      else if (!chosen?.programs.has(programKey) || sandbox.programs.has(programKey)) chosen = sandbox
    }
    if (chosen) this.#idle.delete(chosen)
    return chosen
  }

  /** Ends who takes too long, and who has nothing to do. */
  #look(): void {
    const now = performance.now()
    for (const sandbox of this.#busy.keys()) sandbox.watch(now)
    for (const [sandbox, since] of this.#idle) {
      if (now - since < IDLE_LIMIT_MS) continue
      this.#idle.delete(sandbox)
      sandbox.kill('closed')
    }
    if (this.size > 0) return
    clearInterval(this.#watch)
    this.#watch = undefined
  }
}

function closed(): RequestError {
  return new RequestError(500, 'os_process_error', 'The sandbox is closed.')
}

function tooMany(): RequestError {
  return new RequestError(503, 'service_unavailable', 'Too many calls of functions wait.')
}
