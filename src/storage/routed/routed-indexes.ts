/**
 * The stores of indexes, each in the engine of its database. What cannot be listed now is left out of the list: an index that
 * nobody removes costs space, and is never mistaken for that of another database.
 */
import { EngineUnavailableError, StoreMissingError } from '../storage-error.ts'
import type { CatalogListener, Put, StorageEngine, Store } from '../store.ts'
import { type EnginePart, mergedNames, namesOf } from './engine-part.ts'

export class RoutedIndexes implements StorageEngine {
  readonly #parts: readonly EnginePart[]
  readonly #engineOf: (store: string) => StorageEngine

  /** `engineOf` is the one among the engines that belongs to the database of an index. */
  constructor(parts: readonly EnginePart[], engineOf: (store: string) => StorageEngine) {
    this.#parts = parts
    this.#engineOf = engineOf
  }

  async list(): Promise<string[]> {
    return mergedNames(await Promise.all(this.#parts.map((part) => namesOf(part).catch(noneIfUnavailable))))
  }

  has(name: string): boolean {
    return this.#engineOf(name).has(name)
  }

  create(name: string, rows?: readonly Put[]): Promise<Store> {
    return this.#engineOf(name).create(name, rows)
  }

  open(name: string): Promise<Store> {
    return this.#engineOf(name).open(name)
  }

  /** Wherever it is: one that a crash left may be in another engine than its database. */
  async drop(name: string): Promise<void> {
    const holders = this.#parts.filter(({ engine }) => engine.has(name))
    if (holders.length === 0) throw new StoreMissingError(name)
    for (const { engine } of holders) await engine.drop(name)
  }

  onDamaged(listener: (name: string) => void): () => void {
    const ends = this.#parts.map(({ engine }) => engine.onDamaged(listener))
    return () => {
      for (const end of ends) end()
    }
  }

  onChangedElsewhere(listener: CatalogListener): () => void {
    const ends = this.#parts.map(({ engine }) => engine.onChangedElsewhere?.(listener))
    return () => {
      for (const end of ends) end?.()
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#parts.map(({ engine }) => engine.close()))
  }
}

function noneIfUnavailable(error: unknown): string[] {
  if (error instanceof EngineUnavailableError) return []
  throw error
}
