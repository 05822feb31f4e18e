/**
 * Paths for new files of a folder of stores. A generation is given out once, to whichever thread asks: two of them never
 * write the same file.
 */
import { storePath } from './store-file.ts'

/** A folder of stores, as it can be told to other threads. */
export interface StorePlace {
  readonly folder: string
  /** Counts the generations that were given out, in eight bytes. */
  readonly generations: SharedArrayBuffer
}

export class StorePaths {
  readonly place: StorePlace
  readonly #generations: BigUint64Array

  constructor(place: StorePlace) {
    this.place = place
    this.#generations = new BigUint64Array(place.generations)
  }

  /** This generation and those below are taken. */
  passOver(generation: number): void {
    Atomics.store(this.#generations, 0, BigInt(generation))
  }

  next(name: string): string {
    const generation = Number(Atomics.add(this.#generations, 0, 1n)) + 1
    return storePath(this.place.folder, { name, generation })
  }
}
