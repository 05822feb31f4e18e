/**
 * The interface of ordered stores: byte keys in memcmp order, snapshots, atomic and durable commits. Nothing above this folder
 * knows which engine it has. Every answer is a promise: one for a page, never one for a row.
 */
import type { LeaseProof, LeasesOf } from './leases/work-leases.ts'

/** Holds many named stores. A name is any text; the engine decides how it is kept. */
export interface StorageEngine {
  /** For work on a store that one server of all does at a time. Undefined where no other server uses the stores. */
  readonly leasesOf?: LeasesOf
  /** The same in all servers that use the stores. Undefined where no other server does. */
  readonly uuid?: string | undefined
  /** All names, in byte order of their UTF-8 form. */
  list(): Promise<string[]>
  /** Without the names that cannot be known now. Undefined where all can. */
  listReachable?(): Promise<string[]>
  /** All names as of the last time, for an engine that may be out of reach. */
  readonly knownNames?: readonly string[]
  has(name: string): boolean
  /**
   * Throws `StoreExistsError`. The store is durable, with these rows, when the promise resolves; where other servers may open
   * it, none of them finds it without its rows.
   */
  create(name: string, rows?: readonly Put[]): Promise<Store>
  /** Throws `StoreMissingError`. The same object for the same store, as long as it is not dropped. */
  open(name: string): Promise<Store>
  /** Throws `StoreMissingError`. Snapshots that are held stay readable; everything else on the store fails. */
  drop(name: string): Promise<void>
  /** Calls back whenever a store turns out to be damaged, until the returned function is called. */
  onDamaged(listener: (name: string) => void): () => void
  /**
   * Where there are other servers: calls back when one of them created or dropped a store, or committed to one that is not open
   * here. A dropped one comes before its successor.
   */
  onChangedElsewhere?(listener: CatalogListener): () => void
  /** Waits for commits under way, then closes all files. Nothing may be asked of the engine afterwards. */
  close(): Promise<void>
}

export type CatalogChange = 'created' | 'updated' | 'dropped'

export type CatalogListener = (change: CatalogChange, name: string) => void

export interface Store {
  readonly name: string
  /** True once the store was dropped: it never comes back, a store created later under its name is another one. */
  readonly dropped: boolean
  /** Whether it keeps the buffers of values after a commit; otherwise the caller may reuse them. */
  readonly keepsValues: boolean
  /** Whether values that are read have memory of their own, which whoever read them may free. */
  readonly givesCopies: boolean
  /** Undefined where this server is the only one that writes. */
  readonly sharing?: StoreSharing | undefined
  /** For reads of single rows that need not be of one state. Undefined where a snapshot costs as little. */
  readonly latest?: LatestRows | undefined
  /** Bounds for states that slow readers hold, where the engine has few of them. */
  readonly holding?: StateHolding | undefined
  /**
   * The state as of now; it stays as it is however many commits follow. Must be released. Where states take connections, that of
   * the moment of another snapshot, if one is given: who reads two stores has one connection, and waits for no second one.
   */
  snapshot(moment?: Moment): SharedSnapshot
  /** All or nothing. Resolves when the changes are on disk, and not before. */
  commit(changes: Changes): Promise<CommitOutcome>
  /**
   * Puts these rows in the place of all there are; fastest when those that have the first byte of their keys in common
   * come in the order of their keys. Readers see the old ones until all is done and on disk. Commits under way meanwhile are lost: the caller must be the only writer.
   * With a lease that is lost meanwhile it throws `LeaseLostError`, and the old rows stay.
   */
  replace(portions: AsyncIterable<readonly Put[] | PackedRows>, lease?: LeaseProof): Promise<void>
  /** Rewrites the store without its garbage while it is being read and written. One at a time. */
  compact(options?: CompactOptions): Promise<void>
  sizes(): Promise<StoreSizes>
  /** Whether nothing is stored, as the engine itself has counted: not because nothing was found. */
  isEmpty(): Promise<boolean>
}

export interface StateHolding {
  /** A reader that reads nothing for this time has stalled. */
  readonly idleMs: number
  /** States that idle readers of the store hold at once. */
  readonly idleStates: number
  /** Whether others wait for a state, of any store: idle readers do not keep theirs then. */
  readonly isWaitedFor?: () => boolean
}

/** Rows of the newest state. What is read one after the other may be of different states. */
export interface LatestRows {
  /** Every commit that was acknowledged before the call is seen. */
  get(key: Uint8Array): Promise<Buffer | undefined>
  /**
   * A row that never changes once it is written, and that the newest state referred to just now: it may come from memory.
   * Undefined where it is stored no more. The buffer is shared: it must not be changed.
   */
  getFixed(key: Uint8Array): Promise<Buffer | undefined>
}

/** What a store offers that several servers write to at the same time. */
export interface StoreSharing {
  /**
   * A turn to commit: for a server whose commits were refused, since others commit too. It is asked for with the first read,
   * which waits for it. Undefined where the engine has none.
   */
  readonly turn?: (() => Turn) | undefined
  /**
   * Calls back when a commit of another server was noticed; returns how to stop that. The promise of a listener resolves when
   * it has processed the commit: see `confirm`.
   */
  watch(listener: () => void | Promise<void>): () => void
  /** Resolves when the listeners of all other servers have processed the commits so far. */
  confirm(): Promise<void>
  /** A number that nobody else was given or will be. Numbers grow with time, and there are gaps. */
  nextNumber(): Promise<number>
  /** Numbers below this one are so old that no other server is still using them. */
  settledBelow(): Promise<number>
  /**
   * Whether there are rows of all these keys in the newest state. For who reads an older one meanwhile: takes none of the
   * connections that states take. Undefined where a snapshot tells.
   */
  readonly areStored?: ((keys: readonly Uint8Array[]) => Promise<boolean>) | undefined
}

/** What a snapshot can have in common with snapshots of other stores. For their engine only. */
export interface Moment {
  readonly isMoment: true
}

export interface Snapshot extends Disposable {
  /** Undefined where a snapshot takes no connection, and before it is read and after it is released. */
  readonly moment?: Moment | undefined
  /** Counts the commits of the store; a commit that expects this number succeeds only on this very state. */
  version(): Promise<number>
  get(key: Uint8Array): Promise<Buffer | undefined>
  /** The values in the order of the keys. */
  getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]>
  /** The first rows of the range; `next` of the answer is the rest of the range. */
  page(range: KeyRange, limits?: PageLimits): Promise<Page>
  /** How many rows a range has that is known to be short: they are counted in one go. */
  count(range: KeyRange): Promise<number>
  /** Lets go of the state, so that its space can be used again. May be called twice. */
  release(): void
}

/** While it lasts nobody else commits to the store, so a commit is not refused. Must be released soon: others wait, and take it away. */
export interface Turn extends Disposable {
  /** The newest state. Released with the turn. */
  readonly snapshot: Snapshot
  /** Once, with changes that expect the version of the snapshot. It is refused where the turn was taken away meanwhile. */
  commit(changes: Changes): Promise<CommitOutcome>
  /** May be called twice. */
  release(): void
}

export interface SharedSnapshot extends Snapshot {
  /** The same state for another reader, which must be released too. Costs less than a new snapshot. */
  share(): SharedSnapshot
}

/** From `from` (inclusive) to `to` (exclusive); an absent bound is open. `reverse` gives the same rows backwards. */
export interface KeyRange {
  readonly from?: Uint8Array | undefined
  readonly to?: Uint8Array | undefined
  readonly reverse?: boolean
  /** Where an earlier page ended, in the engine's own words. */
  readonly resume?: Uint8Array
}

/** A page ends with the row that reaches one of the limits. */
export interface PageLimits {
  readonly rows?: number
  readonly bytes?: number
  /** Leave the values out; `value(i)` is then empty. */
  readonly keysOnly?: boolean
  /** More than a few rows are expected: an engine need not try what is quicker for those. */
  readonly expectsMany?: boolean
  /** The rest of the range will be asked for with the same limits: an engine that waits for another process may ask it now. */
  readonly readsOn?: boolean
}

/** Rows copied into one block of their own: slices of it stay valid for as long as somebody holds them. */
export interface Page extends PackedRows {
  key(row: number): Buffer
  value(row: number): Buffer
  /** What is left of the range, or undefined when this page is the last one. */
  readonly next: KeyRange | undefined
}

/** Applied in this order: clears, then deletes, then puts, then packed rows. The buffers must not change before it is done, and never where the store keeps them. */
export interface Changes {
  readonly clears?: readonly KeyRange[]
  readonly deletes?: readonly Uint8Array[]
  readonly puts?: readonly Put[]
  /** More rows to put, for callers that have very many. */
  readonly packed?: PackedRows | undefined
  /** The version of the state that the changes were made for; without it they apply to whatever is there. */
  readonly expected?: number
  /** Rows that nothing refers to yet: they do not raise the version, since no other commit depends on them. */
  readonly unreferenced?: boolean
  /** Made only while this grant of a lease counts; else `LeaseLostError`. Other engines than the one that granted it pass it over. */
  readonly lease?: LeaseProof | undefined
}

export type CommitOutcome =
  | { readonly outcome: 'committed'; readonly version: number }
  | { readonly outcome: 'stale'; readonly version: number }

export interface CompactOptions {
  /** Called now and then with the share that is done, between 0 and 1. */
  readonly onProgress?: (done: number) => void
  readonly signal?: AbortSignal
}

export interface StoreSizes {
  /** What the store takes up in the file system. */
  readonly fileBytes: number
  /** What of that is in use; the rest is waiting to be used again, or for a compaction. */
  readonly usedBytes: number
}

export const PAGE_ROWS = 256
export const PAGE_BYTES = 64 * 1024

/** Operations in one commit. Beyond it the caller must split its work: a commit is held in memory whole. */
export const COMMIT_OPERATIONS_LIMIT = 250_000

/** Many rows of a store in one block. */
export interface PackedRows {
  readonly length: number
  readonly block: Buffer
  /** Three offsets into the block for row i at 3i: its key begins, its value begins (the key ends), its value ends. */
  readonly bounds: Uint32Array
}

export type Put = readonly [key: Uint8Array, value: Uint8Array]
