/**
 * What the listeners of one database share: one signal after each commit, and what was read for one of them while others
 * want the very same. So an update costs one reading however many follow it. A crowd is told in rounds with rests between
 * them: what is written meanwhile comes to everybody in one piece, and telling leaves time for everything else.
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

/** Listeners that are told in one turn of the event loop. More are a crowd: they must not hold up everybody else. */
const TOLD_A_TURN = 64

/** A rest is so many times as long as the round before it, so that telling takes a fifth of the time, up to a limit. */
const REST_FACTOR = 4
const LONGEST_REST_MS = 100

export class ChangesHub {
  readonly #listeners = new Set<UpdateListener>()
  readonly #underWay = new Map<string, Promise<ChangeBlock>>()
  readonly #onFailure: (error: unknown) => void
  #round: Round | undefined
  #isBehind = false
  #updateSequence = 0

  /** `onFailure` hears of what a listener throws: the others, and whoever wrote, have no part in it. */
  constructor(onFailure: (error: unknown) => void = () => {}) {
    this.#onFailure = onFailure
  }

  /** The sequence of the last commit, once there was one. */
  get updateSequence(): number {
    return this.#updateSequence
  }

  /** Calls back soon after each commit, once for several where they come fast; returns how to stop that. */
  subscribe(listener: UpdateListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  updated(updateSequence: number): void {
    this.#updateSequence = updateSequence
    this.wake()
  }

  /** Has everybody look for what is new. */
  wake(): void {
    if (this.#round) this.#isBehind = true
    else if (this.#listeners.size > TOLD_A_TURN) this.#tellCrowd()
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
    // What was begun before the last commit does not have it: whoever was told of it must not wait for that.
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

  #tellCrowd(): void {
    const round: Round = { listeners: [...this.#listeners], told: 0, begunMs: performance.now(), last: undefined }
    this.#round = round
    // One goes ahead: what it reads is at hand for those behind it.
    this.#tellSome(round, 1)
  }

  #tellSome(round: Round, some: number): void {
    const end = Math.min(round.told + some, round.listeners.length)
    // Those that left meanwhile do not mind.
    while (round.told < end) {
      const listener = round.listeners[round.told++]
      if (listener) this.#call(listener)
    }
    if (end === round.listeners.length) this.#rest(round)
    else setImmediate(() => this.#tellSome(round, TOLD_A_TURN))
  }

  #rest(round: Round): void {
    round.last = undefined
    const restMs = Math.min(REST_FACTOR * (performance.now() - round.begunMs), LONGEST_REST_MS)
    setTimeout(() => this.#goOn(), restMs).unref()
  }

  #goOn(): void {
    this.#round = undefined
    if (!this.#isBehind) return
    this.#isBehind = false
    this.wake()
  }
}

/** A crowd is told, one portion after the other, and rests. */
interface Round {
  readonly listeners: readonly UpdateListener[]
  /** How many of them were told. */
  told: number
  readonly begunMs: number
  /** What was read last. */
  last: { readonly place: ReadingPlace; readonly block: ChangeBlock } | undefined
}
