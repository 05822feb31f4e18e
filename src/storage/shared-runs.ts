/**
 * Work that many ask for at the same time, and whose result must not be older than the question. All who come while a run is
 * under way share the next one, which begins when that one has ended.
 */
import { setTimeout as pause } from 'node:timers/promises'

export class SharedRuns<T> {
  readonly #work: () => Promise<T>
  readonly #longestMs: number | undefined
  #current: Promise<unknown> | undefined
  #next: Promise<T> | undefined

  /** With `longestMs`, a run that takes longer does not delay the next one. */
  constructor(work: () => Promise<T>, { longestMs }: { readonly longestMs?: number } = {}) {
    this.#work = work
    this.#longestMs = longestMs
  }

  run(): Promise<T> {
    this.#next ??= this.#after(this.#current)
    return this.#next
  }

  async #after(before: Promise<unknown> | undefined): Promise<T> {
    await before
    this.#next = undefined
    const running = this.#work()
    const ended = running.then(noop, noop)
    this.#current =
      this.#longestMs === undefined ? ended : Promise.race([ended, pause(this.#longestMs, undefined, { ref: false })])
    return running
  }
}

/** The result is not kept. */
function noop(): void {}
