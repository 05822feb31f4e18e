/**
 * A disk that keeps no more than it promised. What was written and not flushed is pending, page by page, and each page
 * of it may be on the disk or not when the power goes, in any of the states it went through. Names are pending until
 * their folder is flushed; a rename happens wholly or not at all.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

export const DISK_PAGE_BYTES = 4096

/** What becomes of something pending: none of its states (0), or which one, counted from 1. */
export type Fate = (states: number) => number

/** A change that is under way, or done and not yet flushed. */
export interface Change {
  done: boolean
}

interface State<T> {
  readonly change: Change
  readonly value: T
}

/** A value on the disk, and those it may have instead if the power goes. */
class Pending<T> {
  durable: T
  states: State<T>[] = []

  constructor(durable: T) {
    this.durable = durable
  }

  get latest(): T {
    return this.states.at(-1)?.value ?? this.durable
  }

  settle(changes: ReadonlySet<Change>): void {
    const last = this.states.findLastIndex(({ change }) => changes.has(change))
    if (last < 0) return
    this.durable = this.states[last]!.value
    this.states = this.states.slice(last + 1)
  }

  after(fate: Fate): T {
    const chosen = this.states.length === 0 ? 0 : fate(this.states.length)
    return chosen === 0 ? this.durable : this.states[chosen - 1]!.value
  }
}

export class SimulatedFile {
  readonly #pages: Pending<Buffer>[] = []
  readonly #size = new Pending(0)
  readonly #unflushed = new Set<Change>()

  get size(): number {
    return this.#size.latest
  }

  write(at: number, data: Buffer): Change {
    const change: Change = { done: false }
    this.#unflushed.add(change)
    for (let from = at; from < at + data.length; ) {
      const number = Math.floor(from / DISK_PAGE_BYTES)
      const to = Math.min(at + data.length, (number + 1) * DISK_PAGE_BYTES)
      const page = this.#page(number)
      const value = Buffer.from(page.latest)
      data.copy(value, from % DISK_PAGE_BYTES, from - at, to - at)
      page.states.push({ change, value })
      from = to
    }
    this.#resize(change, Math.max(this.size, at + data.length))
    return change
  }

  /** What is cut off reads as zeros when the file grows again. */
  truncate(size: number): Change {
    const change: Change = { done: false }
    this.#unflushed.add(change)
    this.#pages.forEach((page, number) => {
      const kept = size - number * DISK_PAGE_BYTES
      if (kept < DISK_PAGE_BYTES)
        page.states.push({ change, value: Buffer.from(page.latest).fill(0, Math.max(0, kept)) })
    })
    this.#resize(change, size)
    return change
  }

  /** What a flush that begins now will have made durable when it ends. */
  flushable(): Change[] {
    return [...this.#unflushed].filter(({ done }) => done)
  }

  settle(changes: readonly Change[]): void {
    const settled = new Set(changes)
    for (const page of this.#pages) page?.settle(settled)
    this.#size.settle(settled)
    for (const change of changes) this.#unflushed.delete(change)
  }

  after(fate: Fate): Buffer {
    const content = Buffer.alloc(this.#size.after(fate))
    this.#pages.forEach((page, number) => {
      page.after(fate).copy(content, number * DISK_PAGE_BYTES)
    })
    return content
  }

  #page(number: number): Pending<Buffer> {
    this.#pages[number] ??= new Pending(Buffer.alloc(DISK_PAGE_BYTES))
    return this.#pages[number]
  }

  #resize(change: Change, size: number): void {
    if (size !== this.size) this.#size.states.push({ change, value: size })
  }
}

export class SimulatedFolder {
  readonly now = new Map<string, SimulatedFile | SimulatedFolder>()
  readonly durable = new Map<string, SimulatedFile | SimulatedFolder>()
}

interface Naming {
  readonly folder: SimulatedFolder
  readonly name: string
  readonly meaning: SimulatedFile | SimulatedFolder | undefined
}

interface NameChange extends Change {
  readonly namings: readonly Naming[]
}

export class SimulatedDisk {
  readonly #root = new SimulatedFolder()
  readonly #mountedAt: string
  #unflushed: NameChange[] = []

  /** An empty folder that is on the disk. */
  constructor(mountedAt: string) {
    this.#mountedAt = mountedAt
  }

  holds(path: string): boolean {
    return path === this.#mountedAt || path.startsWith(`${this.#mountedAt}/`)
  }

  at(path: string): SimulatedFile | SimulatedFolder | undefined {
    if (path === this.#mountedAt) return this.#root
    const parent = this.at(dirname(path))
    return parent instanceof SimulatedFolder ? parent.now.get(basename(path)) : undefined
  }

  create(path: string, meaning: SimulatedFile | SimulatedFolder): Change {
    return this.#rename([{ ...this.#place(path), meaning }])
  }

  remove(path: string): Change {
    return this.#rename([{ ...this.#place(path), meaning: undefined }])
  }

  rename(from: string, to: string): Change {
    return this.#rename([
      { ...this.#place(from), meaning: undefined },
      { ...this.#place(to), meaning: this.at(from) },
    ])
  }

  flushable(folder: SimulatedFolder): NameChange[] {
    return this.#unflushed.filter(({ done, namings }) => done && namings.some((naming) => naming.folder === folder))
  }

  /** Flushes overlap: what one that ended first has settled, with later changes of the same names, is not settled again. */
  settle(changes: readonly NameChange[]): void {
    const settled = new Set(changes)
    for (const change of this.#unflushed) {
      if (!settled.has(change)) continue
      for (const { folder, name, meaning } of change.namings) set(folder.durable, name, meaning)
    }
    this.#unflushed = this.#unflushed.filter((change) => !settled.has(change))
  }

  /** Lays down what is on the disk if the power goes now; `now` instead lays down what a reader sees. */
  async materialise(folder: string, fate: Fate | 'now'): Promise<void> {
    if (fate === 'now') return layDown(folder, this.#root, ({ now }) => now, Math.max)
    const names = new Map<SimulatedFolder, Map<string, SimulatedFile | SimulatedFolder>>()
    const namesOf = (of: SimulatedFolder) => {
      const found = names.get(of) ?? new Map(of.durable)
      names.set(of, found)
      return found
    }
    for (const { namings } of this.#unflushed) {
      if (fate(1) === 0) continue
      for (const naming of namings) set(namesOf(naming.folder), naming.name, naming.meaning)
    }
    await layDown(folder, this.#root, namesOf, fate)
  }

  #place(path: string): { folder: SimulatedFolder; name: string } {
    const folder = this.at(dirname(path))
    if (!(folder instanceof SimulatedFolder)) throw new Error(`There is no folder for ${path}.`)
    return { folder, name: basename(path) }
  }

  #rename(namings: readonly Naming[]): Change {
    for (const { folder, name, meaning } of namings) set(folder.now, name, meaning)
    const change: NameChange = { done: false, namings }
    this.#unflushed.push(change)
    return change
  }
}

function set<T>(names: Map<string, T>, name: string, meaning: T | undefined): void {
  if (meaning === undefined) names.delete(name)
  else names.set(name, meaning)
}

async function layDown(
  path: string,
  folder: SimulatedFolder,
  namesOf: (folder: SimulatedFolder) => ReadonlyMap<string, SimulatedFile | SimulatedFolder>,
  fate: Fate,
): Promise<void> {
  await mkdir(path, { recursive: true })
  for (const [name, meaning] of namesOf(folder)) {
    if (meaning instanceof SimulatedFolder) await layDown(join(path, name), meaning, namesOf, fate)
    else await writeFile(join(path, name), meaning.after(fate))
  }
}
