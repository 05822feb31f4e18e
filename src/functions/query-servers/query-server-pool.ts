/**
 * The processes of one query server: as many as are needed at a time, up to a limit, closed when they are idle for long. When
 * none is free, callers wait; databases take turns.
 */
import type { RequestError } from '../../document/request-error.ts'
import { FairSemaphore, type Run } from '../../runtime/fair-semaphore.ts'
import { processError } from '../../runtime/processes/answering-process.ts'
import type { QueryServer } from './query-server.ts'

export interface PoolOptions {
  /** May throw: the caller that needed the process gets the error. */
  start(): QueryServer
  /** What each use begins with. */
  prepare(server: QueryServer): Promise<void>
  /** How many there may be now. */
  limit(): number
}

/** Which process suits a use best, where several are free. */
export type Preference = (server: QueryServer) => boolean

/** A process in use; it must be released in every case. */
export interface TakenServer {
  readonly server: QueryServer
  release(): void
  /** Ends the process, unless it was released already. */
  abandon(): void
}

/** An idle process is ended after this time. */
const IDLE_LIMIT_MS = 300_000

export class QueryServerPool {
  readonly #options: PoolOptions
  readonly #semaphore: FairSemaphore
  /** The one that was used last is at the end. */
  #idle: { readonly server: QueryServer; readonly expiry: NodeJS.Timeout }[] = []
  readonly #busy = new Set<QueryServer>()
  /** Busy ones that are not to be used again. */
  readonly #retired = new Set<QueryServer>()
  #isClosed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#semaphore = new FairSemaphore(() => options.limit())
  }

  /** Runs with a process of its own. When the run is given up the process ends, and the signal's reason is thrown. */
  async use<T>(run: Run, work: (server: QueryServer) => Promise<T>, prefers?: Preference): Promise<T> {
    const taken = await this.take(run, prefers)
    try {
      return await work(taken.server)
    } catch (error) {
      run.signal?.throwIfAborted()
      throw error
    } finally {
      taken.release()
    }
  }

  /** The signal of the run ends the process until it is released. */
  async take(run: Run, prefers: Preference = () => false): Promise<TakenServer> {
    await this.#semaphore.acquire(run)
    try {
      return await this.#taken(run, prefers)
    } catch (error) {
      this.#semaphore.release(run.owner)
      run.signal?.throwIfAborted()
      throw error
    }
  }

  /** Processes that run now finish what they do, and are not used again. */
  restart(): void {
    for (const server of this.#busy) this.#retired.add(server)
    this.#stopIdle()
    this.#semaphore.serve()
  }

  /** Resolves when all are gone; uses that are under way fail. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#semaphore.close(closing())
    const busy = [...this.#busy].map((server) => {
      server.kill()
      return server.stop()
    })
    await Promise.all([...this.#stopIdle(), ...busy])
  }

  /** One that is idle and still answers, or else a new one. */
  async #taken(run: Run, prefers: Preference): Promise<TakenServer> {
    for (;;) {
      run.signal?.throwIfAborted()
      if (this.#isClosed) throw closing()
      const idle = this.#idleServer(prefers)
      const server = idle ?? this.#options.start()
      const returnToPool = this.#hold(server, run)
      try {
        await this.#options.prepare(server)
        return this.#heldServer(server, run, returnToPool)
      } catch (error) {
        server.kill()
        returnToPool()
        // What an idle one was up to is not for this use to suffer.
        if (!idle) throw error
      }
    }
  }

  #heldServer(server: QueryServer, { owner }: Run, returnToPool: () => void): TakenServer {
    // After the release the process may belong to another caller.
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      returnToPool()
      this.#semaphore.release(owner)
    }
    const abandon = () => {
      if (isHeld) server.kill()
      release()
    }
    return { server, release, abandon }
  }

  /** Returns how to release it: then it is idle, or ended if it must not be reused. */
  #hold(server: QueryServer, { signal }: Run): () => void {
    this.#busy.add(server)
    const kill = () => server.kill()
    signal?.addEventListener('abort', kill, { once: true })
    return () => {
      signal?.removeEventListener('abort', kill)
      this.#busy.delete(server)
      const isWanted = !this.#retired.delete(server) && server.isUsable && !this.#isClosed
      if (isWanted) this.#keep(server)
      else void server.stop()
    }
  }

  #keep(server: QueryServer): void {
    const expiry = setTimeout(() => {
      this.#idle = this.#idle.filter((each) => each.server !== server)
      void server.stop()
    }, IDLE_LIMIT_MS)
    expiry.unref()
    this.#idle.push({ server, expiry })
  }

  #idleServer(prefers: Preference): QueryServer | undefined {
    // A process that has ended is skipped.
    this.#idle = this.#idle.filter(({ server, expiry }) => {
      if (!server.isUsable) clearTimeout(expiry)
      return server.isUsable
    })
    const preferred = this.#idle.findLastIndex(({ server }) => prefers(server))
    const [chosen] = this.#idle.splice(preferred < 0 ? this.#idle.length - 1 : preferred, 1)
    if (!chosen) return undefined
    clearTimeout(chosen.expiry)
    return chosen.server
  }

  #stopIdle(): Promise<void>[] {
    const idle = this.#idle
    this.#idle = []
    for (const { expiry } of idle) clearTimeout(expiry)
    return idle.map(({ server }) => server.stop())
  }
}

function closing(): RequestError {
  return processError('The server closes.')
}
