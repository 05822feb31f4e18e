/**
 * Checks the store of a database for consistency. Records, trees, bodies, changes, ranks and counts must agree with each other;
 * attachments must have their stored digests. The check reads one snapshot, a page at a time, and trusts none of it.
 */
import { type DocumentRecord, decodeLocal, decodeRecord } from '../database/layout/document-record.ts'
import {
  ATTACHMENT_PREFIX,
  BODY_PREFIX,
  CHANGE_PREFIX,
  changeKey,
  type DatabaseState,
  DOCUMENT_PREFIX,
  decodeState,
  documentKey,
  EXPIRY_PREFIX,
  IDENTITY_KEY,
  INITIAL_STATE,
  idOfDocumentKey,
  idOfLocalKey,
  isExpiryKey,
  LOCAL_PREFIX,
  META_PREFIX,
  numberOfBodyKey,
  PURGE_PREFIX,
  RANK_PREFIX,
  SECURITY_KEY,
  STATE_KEY,
  sequenceOfChangeKey,
  TREE_PREFIX,
  treeKey,
} from '../database/layout/keys.ts'
import type { RevisionTree } from '../document/tree/revision-tree.ts'
import { decodeTree } from '../document/tree/tree-codec.ts'
import { SALT_BYTES } from '../storage/rank-tree/rank-tree.ts'
import type { Page, Snapshot } from '../storage/store.ts'
import {
  hasNumbers,
  hasTreeInside,
  idOfChange,
  isJsonObject,
  pagesOf,
  rankTreeOf,
  rowsOf,
  sequenceOf,
} from './checked-rows.ts'
import { DocumentCheck } from './document-check.ts'
import { type CheckListener, FaultReporter, messageOf } from './fault.ts'
import { salvagedRecord } from './lost-record.ts'

/** What identifies a database in its files. */
export interface CheckedIdentity {
  readonly uuid: string
  readonly salt: Buffer
  readonly isPartitioned: boolean
}

export interface CheckedDatabase {
  readonly state: DatabaseState
  readonly identity: CheckedIdentity | undefined
  readonly documents: number
  readonly attachments: number
}

/** The approximate share of each pass in the work. */
const RECORDS_SHARE = 0.8

export async function checkDatabase(snapshot: Snapshot, listener: CheckListener): Promise<CheckedDatabase> {
  return new DatabaseCheck(snapshot, listener).run()
}

class DatabaseCheck {
  readonly #snapshot: Snapshot
  readonly #listener: CheckListener
  readonly #faults: FaultReporter
  readonly #documentCheck: DocumentCheck
  /** Documents whose records are missing and whose trees are there. */
  readonly #lostTrees = new Set<string>()
  #state: DatabaseState = INITIAL_STATE
  #documents = 0
  #tombstones = 0
  #bodyBytes = 0
  #lastSequence = 0
  #lastBody = 0

  constructor(snapshot: Snapshot, listener: CheckListener) {
    this.#snapshot = snapshot
    this.#listener = listener
    this.#faults = new FaultReporter(listener)
    this.#documentCheck = new DocumentCheck(snapshot, this.#faults)
  }

  async run(): Promise<CheckedDatabase> {
    // Being created, or left by a crash before its first commit: no client was told that it exists.
    if ((await this.#snapshot.page({}, { rows: 1, keysOnly: true })).length === 0) {
      return { state: INITIAL_STATE, identity: undefined, documents: 0, attachments: 0 }
    }
    const hasState = await this.#readState()
    const identity = await this.#identity()
    await this.#checkSecurity()
    await this.#checkRecords()
    await this.#checkChanges()
    await this.#checkTrees()
    await this.#checkBodies()
    await this.#checkLocals()
    await this.#checkPurges()
    await this.#checkOtherRows()
    if (hasState) this.#checkNumbers()
    if (identity) await this.#checkRanks(identity.salt)
    this.#listener.progress(1)
    return {
      state: this.#state,
      identity,
      documents: this.#documents + this.#tombstones,
      attachments: this.#documentCheck.attachmentCount,
    }
  }

  async #readState(): Promise<boolean> {
    const stored = await this.#snapshot.get(STATE_KEY)
    try {
      if (!stored) throw new Error('it is missing')
      this.#state = decodeState(stored)
      if (!hasNumbers(this.#state)) {
        this.#state = INITIAL_STATE
        throw new Error('it has a number that is none')
      }
      return true
    } catch (error) {
      this.#faults.derived(`The row of its counts cannot be read: ${messageOf(error)}.`)
      return false
    }
  }

  async #identity(): Promise<CheckedIdentity | undefined> {
    const stored = await this.#snapshot.get(IDENTITY_KEY)
    try {
      const { uuid, salt, partitioned = false } = JSON.parse(stored?.toString() ?? '')
      const bytes = Buffer.from(String(salt), 'hex')
      if (typeof uuid !== 'string' || bytes.length !== SALT_BYTES) throw new Error('uuid or salt')
      return { uuid, salt: bytes, isPartitioned: partitioned === true }
    } catch {
      this.#faults.lost('The row of its identity is missing or cannot be read.')
      return undefined
    }
  }

  async #checkSecurity(): Promise<void> {
    const stored = await this.#snapshot.get(SECURITY_KEY)
    if (stored && !isJsonObject(stored)) this.#faults.lost('The security object is not a JSON object.')
  }

  async #checkRecords(): Promise<void> {
    const expected = Math.max(1, this.#state.documentCount + this.#state.deletedCount)
    for await (const page of pagesOf(this.#snapshot, rowsOf(DOCUMENT_PREFIX))) {
      const found = await this.#recordsIn(page)
      const changes = await this.#snapshot.getMany(found.map(({ record }) => changeKey(record.sequence)))
      for (const [i, { id, record, tree }] of found.entries()) {
        if (record.deleted) this.#tombstones++
        else this.#documents++
        this.#bodyBytes += record.bodyBytes
        this.#lastSequence = Math.max(this.#lastSequence, record.sequence)
        this.#documentCheck.checkChange(id, record, tree, changes[i])
        if (tree) await this.#documentCheck.checkRecord(id, record, tree)
      }
      this.#listener.progress((RECORDS_SHARE * (this.#documents + this.#tombstones)) / expected)
    }
  }

  /** The readable records of a page, with their trees. */
  async #recordsIn(page: Page): Promise<{ id: string; record: DocumentRecord; tree: RevisionTree | undefined }[]> {
    const found: { id: string; record: DocumentRecord; tree: RevisionTree | undefined }[] = []
    for (let row = 0; row < page.length; row++) {
      const id = idOfDocumentKey(page.key(row))
      if (!documentKey(id).equals(page.key(row))) this.#faults.lost('Its id is not UTF-8.', id)
      try {
        const record = decodeRecord(page.value(row))
        found.push({ id, record, tree: record.tree ?? (await this.#treeApart(id)) })
      } catch (error) {
        this.#faults.lost(`Its record cannot be understood: ${messageOf(error)}.`, id)
      }
    }
    return found
  }

  async #treeApart(id: string): Promise<RevisionTree | undefined> {
    const stored = await this.#snapshot.get(treeKey(id))
    if (stored) return decodeTree(stored)
    this.#faults.lost('Its revision tree is missing.', id)
    return undefined
  }

  /** Changes that no record refers to. */
  async #checkChanges(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(CHANGE_PREFIX))) {
      const changes = Array.from({ length: page.length }, (_, row) => ({
        sequence: sequenceOfChangeKey(page.key(row)),
        id: idOfChange(page.value(row)),
      }))
      const known = changes.filter(({ id }) => id !== undefined)
      const records = await this.#snapshot.getMany(known.map(({ id }) => documentKey(id ?? '')))
      const sequences = new Map(known.map(({ sequence }, i) => [sequence, records[i] && sequenceOf(records[i])]))
      const recorded = new Set(known.flatMap(({ id }, i) => (records[i] ? [id] : [])))
      for (const [row, { sequence, id }] of changes.entries()) {
        this.#lastSequence = Math.max(this.#lastSequence, sequence)
        if (id !== undefined && !recorded.has(id)) await this.#checkLostRecord(id, sequence, page.value(row))
        else if (sequences.get(sequence) !== sequence)
          this.#faults.derived(`There is a change ${sequence} that is not its last one.`, id)
      }
    }
  }

  /** A document that has a change and no record. What is left of it may be all there is. */
  async #checkLostRecord(id: string, sequence: number, change: Buffer): Promise<void> {
    const salvaged = await salvagedRecord(this.#snapshot, sequence, change)
    if (!salvaged) {
      this.#faults.lost('Its record is missing.', id)
      return
    }
    for (const number of salvaged.tree.bodies()) this.#documentCheck.usedBodies.add(number)
    this.#lostTrees.add(id)
    this.#faults.derived(
      salvaged.hasHistory
        ? 'Its record is missing. All of it can be made again.'
        : 'Its record is missing. Its newest revision is there, its history is not: a repair brings the document back without it.',
      id,
    )
  }

  /** Trees that no record refers to. */
  async #checkTrees(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(TREE_PREFIX), { keysOnly: true })) {
      const ids = Array.from({ length: page.length }, (_, row) => page.key(row).toString('utf8', 1))
      const records = await this.#snapshot.getMany(ids.map(documentKey))
      for (const [i, id] of ids.entries()) {
        const record = records[i]
        if (this.#lostTrees.has(id)) continue
        if (!record || hasTreeInside(record))
          this.#faults.derived('There is a revision tree that no record speaks of.', id)
      }
    }
  }

  async #checkBodies(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(BODY_PREFIX), { keysOnly: true })) {
      for (let row = 0; row < page.length; row++) {
        const number = numberOfBodyKey(page.key(row))
        this.#lastBody = Math.max(this.#lastBody, number)
        if (!this.#documentCheck.usedBodies.has(number))
          this.#faults.derived(`The body ${number} belongs to no document.`)
      }
    }
  }

  async #checkLocals(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(LOCAL_PREFIX))) {
      for (let row = 0; row < page.length; row++) {
        const id = idOfLocalKey(page.key(row))
        try {
          if (!isJsonObject(decodeLocal(page.value(row)).text)) this.#faults.lost('It is not a JSON object.', id)
        } catch (error) {
          this.#faults.lost(`It cannot be understood: ${messageOf(error)}.`, id)
        }
      }
    }
  }

  async #checkPurges(): Promise<void> {
    let last: number | undefined
    for await (const page of pagesOf(this.#snapshot, rowsOf(PURGE_PREFIX))) {
      for (let row = 0; row < page.length; row++) {
        const sequence = numberOfBodyKey(page.key(row))
        if (!isJsonObject(page.value(row))) this.#faults.lost(`The purge ${sequence} cannot be understood.`)
        if (last !== undefined && sequence !== last + 1)
          this.#faults.lost(`Purges between ${last} and ${sequence} are missing.`)
        last = sequence
      }
    }
    const { purgeSequence } = this.#state
    if (last !== undefined && last > purgeSequence)
      this.#faults.derived(`There is a purge ${last}, and the purge sequence is ${purgeSequence}.`)
    if (last !== undefined && last < purgeSequence)
      this.#faults.lost(`The purges since ${last} are missing; the purge sequence is ${purgeSequence}.`)
    if (last === undefined && purgeSequence > 0)
      this.#faults.lost(`The purges since 0 are missing; the purge sequence is ${purgeSequence}.`)
  }

  /** Rows of no known kind. */
  async #checkOtherRows(): Promise<void> {
    const known = KNOWN_PREFIXES.toSorted(Buffer.compare)
    for (const [i, prefix] of [Buffer.of(1), ...known].entries()) {
      const from = i === 0 ? prefix : Buffer.of(prefix[0]! + 1)
      const to = known[i]
      if (to && Buffer.compare(from, to) >= 0) continue
      const page = await this.#snapshot.page({ from, to }, { rows: 1, keysOnly: true })
      if (page.length > 0)
        this.#faults.lost(`There is a row of an unknown kind, ${page.key(0).toString('hex').slice(0, 40)}.`)
    }
    for await (const page of pagesOf(this.#snapshot, rowsOf(META_PREFIX), { keysOnly: true })) {
      for (let row = 0; row < page.length; row++) {
        const key = page.key(row)
        const isQueued = key.subarray(0, EXPIRY_PREFIX.length).equals(EXPIRY_PREFIX)
        if (isQueued && !isExpiryKey(key))
          this.#faults.derived('There is a row of the queue of expiry that has no time.')
        if (!isQueued && ![STATE_KEY, IDENTITY_KEY, SECURITY_KEY].some((each) => each.equals(key))) {
          this.#faults.lost(`There is a row of an unknown kind, ${key.toString('latin1').slice(0, 40)}.`)
        }
      }
    }
  }

  #checkNumbers(): void {
    const { documentCount, deletedCount, bodyBytes, updateSequence, nextBody } = this.#state
    if (documentCount !== this.#documents)
      this.#faults.derived(`The count of documents is ${documentCount}; there are ${this.#documents}.`)
    if (deletedCount !== this.#tombstones)
      this.#faults.derived(`The count of tombstones is ${deletedCount}; there are ${this.#tombstones}.`)
    if (bodyBytes !== this.#bodyBytes)
      this.#faults.derived(`The size of all bodies is said to be ${bodyBytes} bytes, and is ${this.#bodyBytes}.`)
    if (updateSequence < this.#lastSequence)
      this.#faults.derived(`The update sequence is ${updateSequence}, and there is a change ${this.#lastSequence}.`)
    if (nextBody <= this.#lastBody)
      this.#faults.derived(`The next body is to be ${nextBody}, and there is a body ${this.#lastBody}.`)
  }

  async #checkRanks(salt: Buffer): Promise<void> {
    const ranks = rankTreeOf(salt)
    try {
      const { wrong, extra } = await ranks.check(this.#snapshot)
      if (wrong > 0) this.#faults.derived(`${wrong} nodes of the rank tree are wrong or missing.`)
      if (extra > 0) this.#faults.derived(`${extra} nodes of the rank tree ought not to be there.`)
    } catch (error) {
      this.#faults.derived(`The rank tree cannot be read: ${messageOf(error)}.`)
    }
  }
}

const KNOWN_PREFIXES = [
  ATTACHMENT_PREFIX,
  BODY_PREFIX,
  CHANGE_PREFIX,
  DOCUMENT_PREFIX,
  LOCAL_PREFIX,
  META_PREFIX,
  PURGE_PREFIX,
  RANK_PREFIX,
  TREE_PREFIX,
]
