/**
 * What the subscribers of one database share: a notification after each commit, and the block of changes that was read for
 * one of them while others want the very same. So an update costs one read however many follow it.
 *
 * Many subscribers are notified in rounds, with pauses between them: what is written meanwhile comes to everybody in one
 * block, and notifying leaves time for everything else. Invariant: every subscriber is notified at least once after each
 * commit, when `updateSequence` is that of the commit or a later one; a commit during a round is followed by another round.
 */
import type { ChangeBlock } from './changes.ts'

export type UpdateListener = () => void

/** Where a reader stands, and what it wants. */
export interface ReadingPlace {
  /** Readers that have the same name here want the same. */
  readonly sharedAs: string
  /** The last sequence that it looked at. */
  readonly cursor: number
  /** How many changes it wants at most. */
  readonly left: number
}

/** Subscribers that are notified in one turn of the event loop. Where there are more, they are notified in rounds. */
const NOTIFIED_PER_TURN = 64

/** The pause after a round, as a multiple of its duration: notifying takes a fifth of the time, down to a limit. */
const PAUSE_FACTOR = 4
const LONGEST_PAUSE_MS = 100

export class ChangesHub {
  readonly #listeners = new Set<UpdateListener>()
  readonly #underWay = new Map<string, Promise<ChangeBlock>>()
  readonly #onFailure: (error: unknown) => void
  readonly #onSubscribed: () => void
  #round: Round | undefined
  #isRoundDue = false
  #updateSequence = 0

  /**
   * `onFailure` is called with what a listener throws: it must not affect the others, or the writer. `onSubscribed` is
   * called before each subscriber can miss anything.
   */
  constructor(onFailure: (error: unknown) => void = () => {}, onSubscribed: () => void = () => {}) {
    this.#onFailure = onFailure
    this.#onSubscribed = onSubscribed
  }

  get hasSubscribers(): boolean {
    return this.#listeners.size > 0
  }

  /** The sequence of the last commit, once there was one. */
  get updateSequence(): number {
    return this.#updateSequence
  }

  /** Calls back soon after each commit, once for several where they come fast. Returns how to unsubscribe. */
  subscribe(listener: UpdateListener): () => void {
    this.#listeners.add(listener)
    this.#onSubscribed()
    return () => this.#listeners.delete(listener)
  }

  updated(updateSequence: number): void {
    this.#updateSequence = updateSequence
    this.wake()
  }

  /** Notifies all subscribers. */
  wake(): void {
    if (this.#round) this.#isRoundDue = true
    else if (this.#listeners.size > NOTIFIED_PER_TURN) this.#beginRound()
    else for (const listener of [...this.#listeners]) this.#call(listener)
  }

  #call(listener: UpdateListener): void {
    try {
      listener()
    } catch (error) {
      this.#onFailure(error)
    }
  }

  /** What is being read at this place, or else what `read` reads. */
  shared(place: ReadingPlace, read: () => Promise<ChangeBlock>): Promise<ChangeBlock> {
    // A read that began before the last commit does not have it: a subscriber notified of it must not wait for that read.
    const name = `${this.#updateSequence} ${place.cursor} ${place.left} ${place.sharedAs}`
    const underWay = this.#underWay.get(name)
    if (underWay) return underWay
    const reading = this.#read(place, read).finally(() => this.#underWay.delete(name))
    this.#underWay.set(name, reading)
    return reading
  }

  /** What was read in this round for another one at the same place, if that is all there was and less than it wants. */
  atHand({ sharedAs, cursor, left }: ReadingPlace): ChangeBlock | undefined {
    const last = this.#round?.last
    if (last?.place.cursor !== cursor || last.place.sharedAs !== sharedAs) return undefined
    return last.block.isEnd && last.block.rows < left ? last.block : undefined
  }

  async #read(place: ReadingPlace, read: () => Promise<ChangeBlock>): Promise<ChangeBlock> {
    const block = await read()
    if (this.#round) this.#round.last = { place, block }
    return block
  }

  #beginRound(): void {
    const round: Round = { listeners: [...this.#listeners], notified: 0, begunMs: performance.now(), last: undefined }
    this.#round = round
    // The first one reads ahead: its block is reused by the others.
    this.#notifySome(round, 1)
  }

  #notifySome(round: Round, some: number): void {
    const end = Math.min(round.notified + some, round.listeners.length)
    // Those that unsubscribed meanwhile ignore it.
    while (round.notified < end) {
      const listener = round.listeners[round.notified++]
      if (listener) this.#call(listener)
    }
    if (end === round.listeners.length) this.#pause(round)
    else setImmediate(() => this.#notifySome(round, NOTIFIED_PER_TURN))
  }

  #pause(round: Round): void {
    round.last = undefined
    const pauseMs = Math.min(PAUSE_FACTOR * (performance.now() - round.begunMs), LONGEST_PAUSE_MS)
    setTimeout(() => this.#resume(), pauseMs).unref()
  }

  #resume(): void {
    this.#round = undefined
    if (!this.#isRoundDue) return
    this.#isRoundDue = false
    this.wake()
  }
}

/** Subscribers are notified, one portion after the other; then there is a pause. */
interface Round {
  readonly listeners: readonly UpdateListener[]
  /** How many of them were notified. */
  notified: number
  readonly begunMs: number
  /** What was read last. */
  last: { readonly place: ReadingPlace; readonly block: ChangeBlock } | undefined
}
