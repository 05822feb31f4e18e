/**
 * Several engines as one. The name of a store decides in which of them it is created. From then on it is looked for where it
 * is: a store is found in any of the engines, whatever the settings say now. No store is said to be missing, and none is
 * created, until every engine has said once which stores it has.
 */
import type { WorkLeases } from '../leases/work-leases.ts'
import { EngineUnavailableError, StoreExistsError, StoreMissingError } from '../storage-error.ts'
import type { CatalogChange, CatalogListener, Put, StorageEngine, Store } from '../store.ts'
import { type EnginePart, mergedNames, namesOf } from './engine-part.ts'

export interface RoutedOptions {
  /** The first one is the server's own. */
  readonly parts: readonly [EnginePart, ...EnginePart[]]
  /** The engine in which a store of this name is created. */
  assigned(name: string): EnginePart
  /** What the stores that belong to this one have in common with it. */
  keyOf(name: string): string
  /** A name is in two engines. Called once for each. */
  onTwice(name: string, used: EnginePart, hidden: EnginePart): void
}

export class RoutedEngine implements StorageEngine {
  readonly #options: RoutedOptions
  /** Where stores were found or created, by their keys: they stay there, whichever engine has another one of the name. */
  readonly #used = new Map<string, EnginePart>()
  readonly #reported = new Set<string>()

  constructor(options: RoutedOptions) {
    this.#options = options
  }

  get uuid(): string | undefined {
    return this.#options.parts[0].engine.uuid
  }

  leasesOf(name: string): WorkLeases | undefined {
    return this.partOf(name).engine.leasesOf?.(name)
  }

  /** The engine that has the store, or would get it. */
  partOf(name: string): EnginePart {
    return this.#holder(name) ?? this.#options.assigned(name)
  }

  /** The same by the key of a store that is in use. */
  partByKey(key: string): EnginePart {
    return this.#used.get(key) ?? this.partOf(key)
  }

  /** Of an engine that cannot be reached, the names that are known. */
  async list(): Promise<string[]> {
    return this.#merged(await Promise.all(this.#options.parts.map(namesOf)))
  }

  async listReachable(): Promise<string[]> {
    return this.#merged(await Promise.all(this.#options.parts.filter(({ isListed }) => isListed).map(namesOf)))
  }

  has(name: string): boolean {
    return this.#holder(name) !== undefined
  }

  async create(name: string, rows?: readonly Put[]): Promise<Store> {
    const part = this.#options.assigned(name)
    const holder = this.#holder(name)
    // The engine itself refuses a name that it has.
    if (holder !== part) {
      if (holder && (await isThere(holder, name))) throw new StoreExistsError(name)
      this.#requireNames()
    }
    return this.#keep(name, part, await part.engine.create(name, rows))
  }

  async open(name: string): Promise<Store> {
    return this.#withPart(name, async (part) => this.#keep(name, part, await part.engine.open(name)))
  }

  async drop(name: string): Promise<void> {
    await this.#withPart(name, (part) => part.engine.drop(name))
    this.#used.delete(this.#options.keyOf(name))
  }

  onDamaged(listener: (name: string) => void): () => void {
    return together(this.#options.parts.map(({ engine }) => engine.onDamaged(listener)))
  }

  onChangedElsewhere(listener: CatalogListener): () => void {
    const listenTo = (part: EnginePart) =>
      part.engine.onChangedElsewhere?.((change, name) => this.#follow(part, listener, change, name))
    return together(this.#options.parts.map((part) => listenTo(part) ?? (() => {})))
  }

  async close(): Promise<void> {
    await Promise.all(this.#options.parts.map(({ engine }) => engine.close()))
  }

  #follow(part: EnginePart, listener: CatalogListener, change: CatalogChange, name: string): void {
    const key = this.#options.keyOf(name)
    const used = this.#used.get(key)
    if (change === 'created') this.#reportTwice(name)
    if (used !== undefined && used !== part && used.engine.has(name)) return
    if (change === 'dropped') this.#used.delete(key)
    listener(change, name)
  }

  /** A missing store may be in an engine that was not asked yet. */
  async #withPart<T>(name: string, work: (part: EnginePart) => Promise<T>): Promise<T> {
    try {
      return await work(this.partOf(name))
    } catch (error) {
      if (error instanceof StoreMissingError) this.#requireNames()
      throw error
    }
  }

  #keep(name: string, part: EnginePart, store: Store): Store {
    this.#used.set(this.#options.keyOf(name), part)
    return store
  }

  #holder(name: string): EnginePart | undefined {
    const { parts, assigned, keyOf } = this.#options
    const used = this.#used.get(keyOf(name))
    if (used?.engine.has(name)) return used
    const wanted = assigned(name)
    return wanted.engine.has(name) ? wanted : parts.find(({ engine }) => engine.has(name))
  }

  #merged(lists: readonly (readonly string[])[]): string[] {
    const names = mergedNames(lists)
    const listed = lists.reduce((sum, list) => sum + list.length, 0)
    if (names.length < listed) for (const name of names) this.#reportTwice(name)
    return names
  }

  #requireNames(): void {
    if (this.#options.parts.every(({ isListed }) => isListed)) return
    throw new EngineUnavailableError('A storage engine cannot be reached, and it is not known which databases it has.')
  }

  #reportTwice(name: string): void {
    const holders = this.#options.parts.filter(({ engine }) => engine.has(name))
    const used = this.#holder(name)
    const hidden = holders.find((part) => part !== used)
    if (!used || !hidden || this.#reported.has(name)) return
    this.#reported.add(name)
    this.#options.onTwice(name, used, hidden)
  }
}

/** What is known of another engine's stores may be out of date: it is asked. */
async function isThere({ engine }: EnginePart, name: string): Promise<boolean> {
  try {
    await engine.open(name)
    return true
  } catch (error) {
    if (error instanceof StoreMissingError) return false
    throw error
  }
}

function together(ends: readonly (() => void)[]): () => void {
  return () => {
    for (const end of ends) end()
  }
}
