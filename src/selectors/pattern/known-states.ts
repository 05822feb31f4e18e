/**
 * The states of a pattern that texts have led to so far: which instructions wait for a character, and which state each
 * character leads to. A character whose way is known costs one lookup, however large the expression is. What is kept is
 * bounded: beyond that all is forgotten and learned again.
 */

/** A complete match. */
export const MATCHED = 'matched'

export class KnownState {
  /** The instructions that wait for a character. */
  readonly places: readonly number[]
  readonly #ofAscii: (KnownState | typeof MATCHED | undefined)[] = []
  readonly #ofOthers = new Map<number, KnownState | typeof MATCHED>()

  constructor(places: readonly number[]) {
    this.places = places
  }

  /** Undefined where that is not known yet. */
  after(codePoint: number): KnownState | typeof MATCHED | undefined {
    return codePoint < ASCII_END ? this.#ofAscii[codePoint] : this.#ofOthers.get(codePoint)
  }

  learn(codePoint: number, state: KnownState | typeof MATCHED): void {
    if (codePoint < ASCII_END) this.#ofAscii[codePoint] = state
    else this.#ofOthers.set(codePoint, state)
  }
}

const ASCII_END = 128
const MOST_PLACES = 50_000
const MOST_WAYS = 10_000

export class KnownStates {
  readonly #byPlaces = new Map<string, KnownState>()
  #places = 0
  #ways = 0

  of(places: readonly number[]): KnownState {
    const key = String.fromCharCode(...places)
    const known = this.#byPlaces.get(key)
    if (known) return known
    this.#places += places.length
    if (this.#places > MOST_PLACES) this.#forget()
    const state = new KnownState([...places])
    this.#byPlaces.set(key, state)
    return state
  }

  learn(from: KnownState, codePoint: number, to: KnownState | typeof MATCHED): void {
    if (++this.#ways > MOST_WAYS) this.#forget()
    from.learn(codePoint, to)
  }

  #forget(): void {
    this.#byPlaces.clear()
    this.#places = 0
    this.#ways = 0
  }
}
