/**
 * What a folder must hold, learnt from the acknowledgements of those who wrote to it. Only what was under way when the
 * crash came may be there or not; it must be wholly one or the other.
 */
import type { Acknowledgement } from './acknowledgements.ts'

export interface ExpectedStore {
  readonly mayBeMissing: boolean
  /** The acknowledged commits of each writer. One more may be there: a writer has one commit under way at a time. */
  readonly commits: Readonly<Record<string, number>>
  /** Whether writers that are not in `commits` may have their first commit under way. */
  readonly othersMayWrite: boolean
  readonly highestVersion: number
}

export type ExpectedStores = Readonly<Record<string, ExpectedStore>>

/** Nothing was acknowledged: it may be there, with the first commits of its writers. */
const UNKNOWN: ExpectedStore = { mayBeMissing: true, commits: {}, othersMayWrite: true, highestVersion: 0 }

/** How many commits a short-lived store gets before it is dropped. */
export function commitsOfLife(life: number): number {
  return 1 + (life % 3)
}

/** The writer of a short-lived store in one of its lives: it distinguishes rows of an earlier life. */
export function writerOfLife(name: string, life: number): string {
  return `${name}-life-${life}`
}

export class Expectations {
  readonly #stores: Record<string, ExpectedStore> = {}
  readonly #lives = new Map<string, number>()

  /** All stores that may be found. */
  constructor(names: readonly string[]) {
    for (const name of names) this.#stores[name] = UNKNOWN
  }

  learn(acknowledgement: Acknowledgement): void {
    if (acknowledgement.kind === 'ready' || acknowledgement.kind === 'compacted') return
    const { name } = acknowledgement
    const store = this.#stores[name] ?? UNKNOWN
    this.#stores[name] = this.#after(store, acknowledgement)
  }

  /** A new process begins by dropping short-lived stores, and may not get as far as saying so. */
  restarted(): void {
    for (const name of this.#lives.keys()) this.#stores[name] = { ...this.#stores[name]!, mayBeMissing: true }
  }

  get stores(): ExpectedStores {
    return { ...this.#stores }
  }

  #after(
    store: ExpectedStore,
    acknowledgement: Exclude<Acknowledgement, { kind: 'ready' | 'compacted' }>,
  ): ExpectedStore {
    const { name, kind } = acknowledgement
    switch (kind) {
      case 'created': {
        const { life } = acknowledgement
        if (life === undefined) return { ...store, mayBeMissing: false }
        this.#lives.set(name, life)
        return {
          mayBeMissing: false,
          commits: { [writerOfLife(name, life)]: 0 },
          othersMayWrite: false,
          highestVersion: 0,
        }
      }
      case 'dropped':
        // The next life may have begun already.
        this.#lives.set(name, acknowledgement.life)
        return { mayBeMissing: true, commits: {}, othersMayWrite: false, highestVersion: 0 }
      case 'committed': {
        const { writer, n, version } = acknowledgement
        const life = this.#lives.get(name)
        return {
          ...store,
          // After its last commit a short-lived store is about to be dropped.
          mayBeMissing: life !== undefined && n === commitsOfLife(life),
          commits: { ...store.commits, [writer]: n },
          highestVersion: Math.max(store.highestVersion, version),
        }
      }
    }
  }
}
