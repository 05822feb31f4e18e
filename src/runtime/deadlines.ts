/**
 * Many deadlines on one timer: a deadline needs no timer of its own, and restarting one costs an assignment. A deadline
 * may expire slightly late, never early; close ones expire together.
 */

/** A deadline passes late by at most this share of its time: so many that begin together share few turns. */
const LATENESS = 1 / 32

/** A timer of Node that is set to more rings at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export class Deadlines {
  /** By the time at which they are looked at. */
  readonly #turns = new Map<number, Set<Deadline>>()
  #timer: NodeJS.Timeout | undefined
  #timerMs = Number.POSITIVE_INFINITY

  /** Calls back once, when the time is over; must be started. */
  deadline(afterMs: number, passed: () => void): Deadline {
    return new Deadline(this, afterMs, passed)
  }

  /** For deadlines: to be looked at when their time is over. */
  add(deadline: Deadline): Set<Deadline> {
    const grainMs = 2 ** Math.max(0, Math.floor(Math.log2(deadline.afterMs * LATENESS)))
    const atMs = Math.ceil(deadline.dueMs / grainMs) * grainMs
    let turn = this.#turns.get(atMs)
    if (!turn) {
      turn = new Set()
      this.#turns.set(atMs, turn)
      if (atMs < this.#timerMs) this.#wakeAt(atMs)
    }
    return turn.add(deadline)
  }

  #wakeAt(atMs: number): void {
    clearTimeout(this.#timer)
    this.#timerMs = atMs
    const delayMs = Math.min(Math.max(0, atMs - performance.now()), LONGEST_TIMER_MS)
    // A waiting deadline does not keep the process alive.
    this.#timer = setTimeout(() => this.#pass(), delayMs).unref()
  }

  #pass(): void {
    this.#timerMs = Number.POSITIVE_INFINITY
    const nowMs = performance.now()
    const due = [...this.#turns].filter(([atMs]) => atMs <= nowMs)
    for (const [atMs, turn] of due) {
      this.#turns.delete(atMs)
      for (const deadline of turn) deadline.check(nowMs)
    }
    for (const [atMs, turn] of this.#turns) if (turn.size === 0) this.#turns.delete(atMs)
    const nextMs = Math.min(...this.#turns.keys())
    if (nextMs < this.#timerMs) this.#wakeAt(nextMs)
  }
}

export class Deadline {
  readonly afterMs: number
  readonly #deadlines: Deadlines
  readonly #passed: () => void
  #turn: Set<Deadline> | undefined
  dueMs = 0

  constructor(deadlines: Deadlines, afterMs: number, passed: () => void) {
    this.#deadlines = deadlines
    this.afterMs = afterMs
    this.#passed = passed
  }

  /** The time counts from now on, whether it was counting or is over. */
  restart(): void {
    this.dueMs = performance.now() + this.afterMs
    // One that is waiting for an earlier turn is found not due there, and waits on.
    this.#turn ??= this.#deadlines.add(this)
  }

  cancel(): void {
    this.#turn?.delete(this)
    this.#turn = undefined
  }

  /** For its turn: passes, or waits on if it was restarted meanwhile. */
  check(nowMs: number): void {
    this.#turn = undefined
    if (this.dueMs > nowMs) this.#turn = this.#deadlines.add(this)
    else this.#passed()
  }
}
