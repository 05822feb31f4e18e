/**
 * Other processes that open files of this server. LMDB forgets a commit that one process writes while another one opens the
 * file. So a process asks before it opens a file, and commits to that store are paused until it has done so. A process that takes
 * too long is killed before they are resumed: it could do the damage later.
 */
import { StoreMissingError } from '../storage-error.ts'
import type { StorePlace } from './store-followers.ts'

/** The stores of an engine. */
export interface OpenableStores {
  /**
   * Resolves when no process writes a commit to the store, until the returned function is called; to undefined where the
   * store has another file by now. Throws `StoreMissingError`.
   */
  pauseCommits(place: StorePlace): Promise<(() => void) | undefined>
}

/** The process opens the file at once, and then ends the opening of this number. */
export interface Permission {
  readonly number: number
  /** When it was given, by the clock that all processes of a machine share. */
  readonly givenMs: number
}

export type OpeningReply = Permission | 'moved' | 'gone'

/** Less than it takes to start another server. */
const VALID_MS = 1000

/**
 * Whether the file may still be opened. A process that was stopped meanwhile may find the permission of a server that is dead,
 * and another one writes by now.
 */
export function isValid({ givenMs }: Permission): boolean {
  return systemMs() - givenMs < VALID_MS
}

function systemMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

export interface OpeningRequest {
  readonly stores: OpenableStores
  readonly place: StorePlace
  /** Aborts when the process is gone. */
  readonly signal: AbortSignal
  /** Kills the process. `left` must follow when it is dead. */
  kill(): void
}

export class FileOpenings {
  readonly #timeoutMs: () => number
  /** By the process and by number: what resumes the commits. */
  readonly #openings = new Map<object, Map<number, () => void>>()
  /** Resolves when none is under way any more. */
  #idle = Promise.withResolvers<void>()
  #lastNumber = 0

  /** A file is opened in less than a millisecond. A process that takes longer than this is hung or stopped. */
  constructor(timeoutMs: () => number) {
    this.#timeoutMs = timeoutMs
  }

  /** The process may open the file when this resolves with a number. */
  async begin(opener: object, { stores, place, signal, kill }: OpeningRequest): Promise<OpeningReply> {
    let resume: (() => void) | undefined
    try {
      resume = await stores.pauseCommits(place)
    } catch (error) {
      if (error instanceof StoreMissingError) return 'gone'
      throw error
    }
    if (!resume) return 'moved'
    if (signal.aborted) {
      resume()
      throw signal.reason
    }
    const number = ++this.#lastNumber
    const openings = this.#openings.get(opener) ?? new Map<number, () => void>()
    const late = () => {
      if (openings.has(number)) kill()
    }
    // After what has arrived was read: it may be this process that was stopped, or had no processor, for so long.
    const timer = setTimeout(() => setImmediate(late), this.#timeoutMs())
    this.#openings.set(opener, openings)
    openings.set(number, () => {
      clearTimeout(timer)
      resume()
    })
    return { number, givenMs: systemMs() }
  }

  /** Whether the process may be opening a file now. */
  isOpening(opener: object): boolean {
    return this.#openings.has(opener)
  }

  /**
   * Undefined where no process may be opening a file now; otherwise resolves when that is so. To be awaited before processes are
   * disconnected: commits would be resumed while one of them opens a file.
   */
  idle(): Promise<void> | undefined {
    return this.#openings.size === 0 ? undefined : this.#idle.promise
  }

  /** The file is open, or could not be opened. */
  end(opener: object, number: number): void {
    const openings = this.#openings.get(opener)
    openings?.get(number)?.()
    openings?.delete(number)
    if (openings?.size === 0) this.#forget(opener)
  }

  /** The process is dead. */
  left(opener: object): void {
    const openings = this.#openings.get(opener)
    for (const resume of openings?.values() ?? []) resume()
    openings?.clear()
    this.#forget(opener)
  }

  #forget(opener: object): void {
    this.#openings.delete(opener)
    if (this.#openings.size > 0) return
    this.#idle.resolve()
    this.#idle = Promise.withResolvers()
  }
}
