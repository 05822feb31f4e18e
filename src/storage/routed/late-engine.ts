/**
 * An engine that may not be reached yet. Until it is, its stores cannot be used, and nothing is known of them.
 */
import type { WorkLeases } from '../leases/work-leases.ts'
import { EngineUnavailableError } from '../storage-error.ts'
import type { CatalogChange, CatalogListener, Put, StorageEngine, Store } from '../store.ts'

export class LateEngine implements StorageEngine {
  #engine: StorageEngine | undefined
  readonly #listeners = new Set<CatalogListener>()

  /** It is reached. */
  begin(engine: StorageEngine): void {
    this.#engine = engine
    engine.onChangedElsewhere?.((change, name) => this.#notify(change, name))
    for (const name of engine.knownNames ?? []) this.#notify('created', name)
  }

  get isListed(): boolean {
    return this.#engine !== undefined
  }

  get knownNames(): readonly string[] {
    return this.#engine?.knownNames ?? []
  }

  get uuid(): string | undefined {
    return this.#engine?.uuid
  }

  leasesOf(name: string): WorkLeases | undefined {
    return this.#engine?.leasesOf?.(name)
  }

  has(name: string): boolean {
    return this.#engine?.has(name) ?? false
  }

  async list(): Promise<string[]> {
    return this.#reached().list()
  }

  async create(name: string, rows?: readonly Put[]): Promise<Store> {
    return this.#reached().create(name, rows)
  }

  async open(name: string): Promise<Store> {
    return this.#reached().open(name)
  }

  async drop(name: string): Promise<void> {
    await this.#reached().drop(name)
  }

  /** The engines that are reached late check their own files. */
  onDamaged(): () => void {
    return () => {}
  }

  onChangedElsewhere(listener: CatalogListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    await this.#engine?.close()
  }

  #notify(change: CatalogChange, name: string): void {
    for (const listener of this.#listeners) listener(change, name)
  }

  #reached(): StorageEngine {
    if (this.#engine) return this.#engine
    throw new EngineUnavailableError('The storage engine of the database cannot be reached.')
  }
}
