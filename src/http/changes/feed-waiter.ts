/**
 * What a feed waits for: that there is news, that a time is over, or its own end, when the client is gone or the listener
 * closes. Waiting holds nothing but this object: no timer, no state of a database.
 */
import type { Deadline, Deadlines } from '../../runtime/deadlines.ts'
import type { Reply } from '../../wire/reply.ts'

export type Awaited = 'news' | 'silence' | 'end'

/** What happens when there was nothing to say for so long. */
export interface Silence {
  readonly afterMs: number
  /** The client is told that the feed is alive; otherwise it ends. */
  readonly isFilled: boolean
}

/**
 * Brings the news to the client without anybody being woken. False if it cannot; a promise if nothing else may happen before
 * the client has taken them.
 */
export type BringNews = () => boolean | Promise<void>

export class FeedWaiter implements Disposable {
  readonly #deadline: Deadline
  readonly #forgetClosing: () => void
  readonly #forgetLeaving: () => void
  #hasNews = false
  #isSilent = false
  #isOver = false
  #isClientBusy = false
  #waiting: Waiting | undefined

  constructor(reply: Reply, deadlines: Deadlines, { afterMs }: Silence) {
    this.#deadline = deadlines.deadline(afterMs, () => {
      this.#isSilent = true
      this.#wake()
    })
    this.#forgetClosing = reply.onClose(this.#end)
    this.#forgetLeaving = reply.onShutdown(this.#end)
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** There is something to look for. */
  news(): void {
    const isBrought = this.#waiting !== undefined && !this.#isClientBusy && !this.#isOver && this.#bring(this.#waiting)
    if (isBrought) return
    this.#hasNews = true
    this.#wake()
  }

  /** Silence counts from now on. */
  restart(): void {
    this.#isSilent = false
    this.#deadline.restart()
  }

  /** Whether it was silent for too long; says so once. */
  takeSilence(): boolean {
    const isSilent = this.#isSilent
    this.#isSilent = false
    return isSilent
  }

  /** What comes first; at once if it has come since the last time. News that are brought are not waited for. */
  wait(bring: BringNews = () => false): Promise<Awaited> {
    return new Promise((resolve) => {
      this.#waiting = { resolve, bring }
      this.#wake()
    })
  }

  [Symbol.dispose](): void {
    this.#end()
    this.#deadline.cancel()
    this.#forgetClosing()
    this.#forgetLeaving()
  }

  readonly #end = (): void => {
    this.#isOver = true
    this.#wake()
  }

  #bring({ bring }: Waiting): boolean {
    const brought = bring()
    if (typeof brought === 'boolean') return brought
    this.#isClientBusy = true
    brought.then(() => {
      this.#isClientBusy = false
      this.#wake()
    })
    return true
  }

  #wake(): void {
    const waiting = this.#waiting
    if (!waiting) return
    const awaited = this.#next()
    if (!awaited) return
    this.#waiting = undefined
    waiting.resolve(awaited)
  }

  #next(): Awaited | undefined {
    if (this.#isOver) return 'end'
    if (this.#isClientBusy) return undefined
    if (this.#hasNews) {
      this.#hasNews = false
      return 'news'
    }
    return this.takeSilence() ? 'silence' : undefined
  }
}

interface Waiting {
  readonly bring: BringNews
  resolve(awaited: Awaited): void
}
