/**
 * One state of a database to read from: documents by id and revision, bodies, local documents, counts and sequences.
 */
import type { RevisionTree } from '../document/tree/revision-tree.ts'
import { decodeTree } from '../document/tree/tree-codec.ts'
import type { RenewableSnapshot } from '../storage/snapshots/renewable-snapshot.ts'
import type { Snapshot } from '../storage/store.ts'
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
  decodeState,
  documentKey,
  INITIAL_STATE,
  localKey,
  SECURITY_KEY,
  STATE_KEY,
  treeKey,
} from './layout/keys.ts'
import { bodyPlaces } from './layout/read-bodies.ts'
import { decodeBody, type StoredBody } from './layout/stored-body.ts'
import type { ReadingAccess } from './user-context.ts'

export class DatabaseView implements Disposable {
  readonly snapshot: Snapshot
  /** What the reader may see, where that is not everything. Documents must be opened through `open-document.ts`. */
  readonly reading: ReadingAccess | undefined

  constructor(snapshot: Snapshot, reading?: ReadingAccess) {
    this.snapshot = snapshot
    this.reading = reading
  }

  async state(): Promise<DatabaseState> {
    const stored = await this.snapshot.get(STATE_KEY)
    return stored ? decodeState(stored) : INITIAL_STATE
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

  /** For a number from an earlier state: the body may be gone, but the number is never reused. */
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
    this.#renewable.releaseState()
  }
}
