/**
 * One state of a database to read from: documents by id and revision, bodies, local documents, counts and sequences.
 */
import type { RevisionTree } from '../document/tree/revision-tree.ts'
import { decodeTree } from '../document/tree/tree-codec.ts'
import type { RenewableSnapshot } from '../storage/snapshots/renewable-snapshot.ts'
import type { LatestRows, Snapshot } from '../storage/store.ts'
import {
  type DocumentRecord,
  decodeLocal,
  decodeRecord,
  type LocalDocument,
  type ReadRecord,
  readRecords,
} from './layout/document-record.ts'
import {
  bodyKey,
  type DatabaseState,
  documentKey,
  localKey,
  SECURITY_KEY,
  STATE_KEY,
  stateOf,
  treeKey,
} from './layout/keys.ts'
import { bodyPlaces } from './layout/read-bodies.ts'
import { decodeBody, type StoredBody } from './layout/stored-body.ts'
import type { ReadingAccess } from './user-context.ts'

/** What is needed to read a document as it is now, without its history. */
export interface DocumentRows {
  readonly reading: ReadingAccess | undefined
  record(id: string): Promise<DocumentRecord | undefined>
  /** For a number from an earlier state: the body may be gone, but the number is never reused. */
  findBody(number: number): Promise<StoredBody | undefined>
  local(id: string): Promise<LocalDocument | undefined>
}

/** Each read is of the newest state. So a record may have been replaced, and its body removed, before that is read. */
export class LatestView implements DocumentRows {
  readonly reading: ReadingAccess | undefined
  readonly #rows: LatestRows

  constructor(rows: LatestRows, reading: ReadingAccess | undefined) {
    this.#rows = rows
    this.reading = reading
  }

  async record(id: string): Promise<DocumentRecord | undefined> {
    const stored = id.isWellFormed() ? await this.#rows.get(documentKey(id)) : undefined
    return stored && decodeRecord(stored)
  }

  async findBody(number: number): Promise<StoredBody | undefined> {
    const stored = await this.#rows.getFixed(bodyKey(number))
    return stored && decodeBody(stored)
  }

  async local(id: string): Promise<LocalDocument | undefined> {
    const stored = await this.#rows.get(localKey(id))
    return stored && decodeLocal(stored)
  }
}

export class DatabaseView implements DocumentRows, Disposable {
  readonly snapshot: Snapshot
  /** What the reader may see, where that is not everything. Documents must be opened through `open-document.ts`. */
  readonly reading: ReadingAccess | undefined

  constructor(snapshot: Snapshot, reading?: ReadingAccess) {
    this.snapshot = snapshot
    this.reading = reading
  }

  async state(): Promise<DatabaseState> {
    return stateOf(await this.snapshot.get(STATE_KEY))
  }

  async record(id: string): Promise<DocumentRecord | undefined> {
    // No document has an id that cannot be written as UTF-8.
    const stored = id.isWellFormed() ? await this.snapshot.get(documentKey(id)) : undefined
    return stored && decodeRecord(stored)
  }

  /** The revision tree of a document whose record is known. */
  async tree(id: string, record: DocumentRecord): Promise<RevisionTree> {
    if (record.tree) return record.tree
    const stored = await this.snapshot.get(treeKey(id))
    if (!stored) throw new Error(`The revision tree of '${id}' is missing.`)
    return decodeTree(stored)
  }

  records(ids: readonly string[]): Promise<ReadRecord[]> {
    return readRecords(this.snapshot, ids)
  }

  async body(number: number): Promise<StoredBody> {
    const body = await this.findBody(number)
    if (!body) throw new Error(`Body ${number} is missing.`)
    return body
  }

  async findBody(number: number): Promise<StoredBody | undefined> {
    const stored = await this.snapshot.get(bodyKey(number))
    return stored && decodeBody(stored)
  }

  async bodies(numbers: readonly number[]): Promise<StoredBody[]> {
    const places = await bodyPlaces(this.snapshot, numbers)
    return places.map(({ block, start, end }) => decodeBody(block.subarray(start, end)))
  }

  async local(id: string): Promise<LocalDocument | undefined> {
    const stored = await this.snapshot.get(localKey(id))
    return stored && decodeLocal(stored)
  }

  /** The text of the security object; undefined when it was never set. */
  async security(): Promise<Buffer | undefined> {
    return this.snapshot.get(SECURITY_KEY)
  }

  release(): void {
    this.snapshot.release()
  }

  [Symbol.dispose](): void {
    this.snapshot.release()
  }
}

/**
 * A view for a slow reader. Between two reads it may move to a newer snapshot: reads that belong together are pinned,
 * and readers that keep results check `renewals`.
 */
export class LastingView extends DatabaseView {
  readonly #renewable: RenewableSnapshot

  constructor(snapshot: RenewableSnapshot, reading?: ReadingAccess) {
    super(snapshot, reading)
    this.#renewable = snapshot
  }

  /** How often it moved to a newer state. */
  get renewals(): number {
    return this.#renewable.renewals
  }

  /** Until it is disposed, all reads are of one state. */
  pin(): Disposable {
    return this.#renewable.pin()
  }

  /** What is read next is of the newest state, unless it is pinned. */
  renew(): void {
    this.#renewable.renew()
  }
}
