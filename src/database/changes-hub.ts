/**
 * What the listeners of one database share: one signal after each commit, and what is being read for one of them while
 * others want the very same. So an update costs one reading however many follow it.
 */
import type { ChangeBlock } from './changes.ts'

export type UpdateListener = () => void

/** Listeners that are woken in one turn of the event loop: thousands of them must not hold up everybody else. */
const WOKEN_A_TURN = 64

export class ChangesHub {
  readonly #listeners = new Set<UpdateListener>()
  readonly #underWay = new Map<string, Promise<ChangeBlock>>()
  #waking: Iterator<UpdateListener> | undefined
  #isBehind = false
  #updateSequence = 0

  /** The sequence of the last commit, once there was one. */
  get updateSequence(): number {
    return this.#updateSequence
  }

  /** Calls back soon after each commit, once for several where they come fast; returns how to stop that. */
  listen(listener: UpdateListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  updated(updateSequence: number): void {
    this.#updateSequence = updateSequence
    this.wake()
  }

  /** Has everybody look for what is new. */
  wake(): void {
    if (this.#waking) this.#isBehind = true
    else if (this.#listeners.size > 0) {
      this.#waking = [...this.#listeners].values()
      this.#wakeSome()
    }
  }

  /** What is being read under this name, or else what `read` reads. */
  shared(name: string, read: () => Promise<ChangeBlock>): Promise<ChangeBlock> {
    const underWay = this.#underWay.get(name)
    if (underWay) return underWay
    const reading = read().finally(() => this.#underWay.delete(name))
    this.#underWay.set(name, reading)
    return reading
  }

  #wakeSome(): void {
    for (let woken = 0; woken < WOKEN_A_TURN; woken++) {
      const next = this.#waking?.next()
      if (!next || next.done) {
        this.#waking = undefined
        break
      }
      // Those that left meanwhile do not mind.
      next.value()
    }
    if (this.#waking) setImmediate(() => this.#wakeSome())
    else if (this.#isBehind) {
      this.#isBehind = false
      setImmediate(() => this.wake())
    }
  }
}
