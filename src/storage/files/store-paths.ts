/** Paths for new files of a folder of stores. A generation is given out once: nobody ever writes the file of another. */
import { stemOf, storePath } from './store-file.ts'

export class StorePaths {
  readonly #folder: string
  #generation: number

  /** This generation and those below are taken. */
  constructor(folder: string, generation: number) {
    this.#folder = folder
    this.#generation = generation
  }

  next(name: string): string {
    this.#generation++
    return storePath(this.#folder, { stem: stemOf(name), generation: this.#generation })
  }
}
