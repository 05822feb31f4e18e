/**
 * Holds everything in the store of a database against everything else in it: records, trees, bodies, changes, ranks and
 * numbers say the same thing several times over, and must agree; attachments must have the digests that are known of them.
 * It reads one state, a page at a time, and trusts none of it.
 */
import { createHash } from 'node:crypto'
import { slicesOf } from '../database/attachments/chunk-writer.ts'
import { decodeChange } from '../database/layout/change-row.ts'
import { type DocumentRecord, decodeLocal, decodeRecord, weightOfRecord } from '../database/layout/document-record.ts'
import {
  ATTACHMENT_PREFIX,
  attachmentKey,
  BODY_PREFIX,
  bodyKey,
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
import { type AttachmentRecord, decodeBody, type StoredBody, sizeOfBody } from '../database/layout/stored-body.ts'
import { leavesBestFirst, winner } from '../document/revisions/winner.ts'
import type { RevisionTree } from '../document/tree/revision-tree.ts'
import { decodeTree } from '../document/tree/tree-codec.ts'
import { isObject } from '../encoding/json/json-value.ts'
import { RankTree, SALT_BYTES } from '../storage/rank-tree/rank-tree.ts'
import type { Page, Snapshot } from '../storage/store.ts'
import type { CheckListener } from './fault.ts'
import { NumberSet } from './number-set.ts'
import { pagesOf, rowsOf } from './snapshot-pages.ts'

/** What a database is called by its files. */
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

/** How much of the work each pass is, about. */
const RECORDS_SHARE = 0.8

export async function checkDatabase(snapshot: Snapshot, listener: CheckListener): Promise<CheckedDatabase> {
  return new DatabaseCheck(snapshot, listener).run()
}

class DatabaseCheck {
  readonly #snapshot: Snapshot
  readonly #listener: CheckListener
  readonly #usedBodies = new NumberSet()
  /** The digests of those that were read, by their numbers. */
  readonly #attachments = new Map<number, string>()
  #state: DatabaseState = INITIAL_STATE
  #documents = 0
  #tombstones = 0
  #bodyBytes = 0
  #lastSequence = 0
  #lastBody = 0

  constructor(snapshot: Snapshot, listener: CheckListener) {
    this.#snapshot = snapshot
    this.#listener = listener
  }

  async run(): Promise<CheckedDatabase> {
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
      attachments: this.#attachments.size,
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
      this.#derived(`The row of its counts cannot be read: ${messageOf(error)}.`)
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
      this.#lost('The row of its identity is missing or cannot be read.')
      return undefined
    }
  }

  async #checkSecurity(): Promise<void> {
    const stored = await this.#snapshot.get(SECURITY_KEY)
    if (stored && !isJsonObject(stored)) this.#lost('The security object is not a JSON object.')
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
        this.#checkChangeOf(id, record, tree, changes[i])
        if (tree) await this.#checkRecord(id, record, tree)
      }
      this.#listener.progress((RECORDS_SHARE * (this.#documents + this.#tombstones)) / expected)
    }
  }

  /** Those of a page that can be understood, with their trees. */
  async #recordsIn(page: Page): Promise<{ id: string; record: DocumentRecord; tree: RevisionTree | undefined }[]> {
    const found: { id: string; record: DocumentRecord; tree: RevisionTree | undefined }[] = []
    for (let row = 0; row < page.length; row++) {
      const id = idOfDocumentKey(page.key(row))
      if (!documentKey(id).equals(page.key(row))) this.#lost('Its id is not UTF-8.', id)
      try {
        const record = decodeRecord(page.value(row))
        found.push({ id, record, tree: record.tree ?? (await this.#treeApart(id)) })
      } catch (error) {
        this.#lost(`Its record cannot be understood: ${messageOf(error)}.`, id)
      }
    }
    return found
  }

  async #treeApart(id: string): Promise<RevisionTree | undefined> {
    const stored = await this.#snapshot.get(treeKey(id))
    if (stored) return decodeTree(stored)
    this.#lost('Its revision tree is missing.', id)
    return undefined
  }

  #checkChangeOf(id: string, record: DocumentRecord, tree: RevisionTree | undefined, stored: Buffer | undefined): void {
    if (!stored) {
      this.#derived(`Its change ${record.sequence} is missing.`, id)
      return
    }
    try {
      const change = decodeChange(stored)
      if (change.id !== id) {
        this.#derived(`Its change ${record.sequence} is of '${change.id}'.`, id)
        return
      }
      if (change.sequence !== record.sequence)
        this.#derived(`Its change ${record.sequence} says ${change.sequence}.`, id)
      if (!tree) return
      const best = winner(tree)
      if (change.deleted !== (best.status === 'deleted') || change.body !== best.body) {
        this.#derived('Its change does not show its winning revision.', id)
      }
      const leaves = leavesBestFirst(tree).map(({ revision }) => revision)
      if (change.leaves.join() !== leaves.join()) this.#derived('Its change does not list its leaves.', id)
    } catch (error) {
      this.#derived(`Its change ${record.sequence} cannot be understood: ${messageOf(error)}.`, id)
    }
  }

  async #checkRecord(id: string, record: DocumentRecord, tree: RevisionTree): Promise<void> {
    const best = winner(tree)
    if (record.winner !== best.revision) this.#derived(`It shows ${record.winner}, and ${best.revision} wins.`, id)
    if (record.deleted !== (best.status === 'deleted'))
      this.#derived('Whether it is deleted is not what its winner says.', id)
    if (record.body !== best.body) this.#derived(`It shows the body ${record.body}, its winner has ${best.body}.`, id)
    const hasOldBodies = tree.bodies().length > tree.branches.length
    if (record.hasOldBodies !== hasOldBodies) this.#derived('Whether it has old bodies is not what its tree says.', id)
    this.#checkTree(id, tree)
    let hasAttachments = false
    for (const number of tree.bodies()) {
      const body = await this.#checkBody(id, number)
      if (!body) continue
      hasAttachments ||= body.attachments.length > 0
      if (number === best.body && record.bodyBytes !== sizeOfBody(body)) {
        this.#derived(`Its size is said to be ${record.bodyBytes} bytes, and is ${sizeOfBody(body)}.`, id)
      }
      for (const attachment of body.attachments) await this.#checkAttachment(id, attachment)
    }
    if (hasAttachments && !record.hasAttachments) this.#derived('It has attachments and says otherwise.', id)
  }

  #checkTree(id: string, tree: RevisionTree): void {
    const seen = new Set<string>()
    for (const leaf of tree.leaves()) {
      if (leaf.status === 'missing') this.#lost(`The leaf ${leaf.revision} has no body.`, id)
    }
    for (const [branch, { bodies }] of tree.branches.entries()) {
      for (let index = 0; index < bodies.length; index++) {
        const { revision } = tree.nodeAt({ branch, index })
        if (seen.has(revision)) this.#lost(`The revision ${revision} is in its tree twice.`, id)
        seen.add(revision)
      }
    }
  }

  async #checkBody(id: string, number: number): Promise<StoredBody | undefined> {
    if (!this.#usedBodies.add(number)) this.#lost(`Its body ${number} is also one of another revision.`, id)
    const stored = await this.#snapshot.get(bodyKey(number))
    if (!stored) {
      this.#lost(`Its body ${number} is missing.`, id)
      return undefined
    }
    try {
      const body = decodeBody(stored)
      if (!isJsonObject(body.text)) throw new Error('it is not a JSON object')
      return body
    } catch (error) {
      this.#lost(`Its body ${number} cannot be understood: ${messageOf(error)}.`, id)
      return undefined
    }
  }

  async #checkAttachment(id: string, { name, number, storedLength, storedMd5 }: AttachmentRecord): Promise<void> {
    const digest = this.#attachments.get(number) ?? (await this.#digestOf(number, storedLength))
    this.#attachments.set(number, digest)
    if (digest === storedMd5) return
    this.#lost(
      digest === MISSING
        ? `The bytes of its attachment '${name}' are not all there.`
        : `The bytes of its attachment '${name}' do not have its digest.`,
      id,
    )
  }

  async #digestOf(number: number, length: number): Promise<string> {
    const hash = createHash('md5')
    if (length === 0 && !(await this.#snapshot.get(attachmentKey(number, 0)))) return MISSING
    for (const { chunk, end } of slicesOf(0, length)) {
      const bytes = await this.#snapshot.get(attachmentKey(number, chunk))
      if (bytes?.length !== end) return MISSING
      hash.update(bytes)
    }
    return hash.digest('base64')
  }

  /** Changes that no record speaks of. */
  async #checkChanges(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(CHANGE_PREFIX))) {
      const changes = Array.from({ length: page.length }, (_, row) => ({
        sequence: sequenceOfChangeKey(page.key(row)),
        id: idOfChange(page.value(row)),
      }))
      const known = changes.filter(({ id }) => id !== undefined)
      const records = await this.#snapshot.getMany(known.map(({ id }) => documentKey(id ?? '')))
      const sequences = new Map(known.map(({ sequence }, i) => [sequence, records[i] && sequenceOf(records[i])]))
      for (const { sequence, id } of changes) {
        this.#lastSequence = Math.max(this.#lastSequence, sequence)
        if (sequences.get(sequence) !== sequence)
          this.#derived(`There is a change ${sequence} that is not its last one.`, id)
      }
    }
  }

  /** Trees that no record speaks of. */
  async #checkTrees(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(TREE_PREFIX), { keysOnly: true })) {
      const ids = Array.from({ length: page.length }, (_, row) => page.key(row).toString('utf8', 1))
      const records = await this.#snapshot.getMany(ids.map(documentKey))
      for (const [i, id] of ids.entries()) {
        const record = records[i]
        if (!record || hasTreeInside(record)) this.#derived('There is a revision tree that no record speaks of.', id)
      }
    }
  }

  async #checkBodies(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(BODY_PREFIX), { keysOnly: true })) {
      for (let row = 0; row < page.length; row++) {
        const number = numberOfBodyKey(page.key(row))
        this.#lastBody = Math.max(this.#lastBody, number)
        if (!this.#usedBodies.has(number)) this.#derived(`The body ${number} belongs to no document.`)
      }
    }
  }

  async #checkLocals(): Promise<void> {
    for await (const page of pagesOf(this.#snapshot, rowsOf(LOCAL_PREFIX))) {
      for (let row = 0; row < page.length; row++) {
        const id = idOfLocalKey(page.key(row))
        try {
          if (!isJsonObject(decodeLocal(page.value(row)).text)) this.#lost('It is not a JSON object.', id)
        } catch (error) {
          this.#lost(`It cannot be understood: ${messageOf(error)}.`, id)
        }
      }
    }
  }

  async #checkPurges(): Promise<void> {
    let last: number | undefined
    for await (const page of pagesOf(this.#snapshot, rowsOf(PURGE_PREFIX))) {
      for (let row = 0; row < page.length; row++) {
        const sequence = numberOfBodyKey(page.key(row))
        if (!isJsonObject(page.value(row))) this.#lost(`The purge ${sequence} cannot be understood.`)
        if (last !== undefined && sequence !== last + 1)
          this.#lost(`Purges between ${last} and ${sequence} are missing.`)
        last = sequence
      }
    }
    const { purgeSequence } = this.#state
    if (last !== undefined && last > purgeSequence)
      this.#derived(`There is a purge ${last}, and the purge sequence is ${purgeSequence}.`)
    if (last !== undefined && last < purgeSequence)
      this.#lost(`The purges since ${last} are missing; the purge sequence is ${purgeSequence}.`)
  }

  /** Rows of no known kind. */
  async #checkOtherRows(): Promise<void> {
    const known = KNOWN_PREFIXES.toSorted(Buffer.compare)
    for (const [i, prefix] of [Buffer.of(1), ...known].entries()) {
      const from = i === 0 ? prefix : Buffer.of(prefix[0]! + 1)
      const to = known[i]
      if (to && Buffer.compare(from, to) >= 0) continue
      const page = await this.#snapshot.page({ from, to }, { rows: 1, keysOnly: true })
      if (page.length > 0) this.#lost(`There is a row of an unknown kind, ${page.key(0).toString('hex').slice(0, 40)}.`)
    }
    for await (const page of pagesOf(this.#snapshot, rowsOf(META_PREFIX), { keysOnly: true })) {
      for (let row = 0; row < page.length; row++) {
        const key = page.key(row)
        const isQueued = key.subarray(0, EXPIRY_PREFIX.length).equals(EXPIRY_PREFIX)
        if (!isQueued && ![STATE_KEY, IDENTITY_KEY, SECURITY_KEY].some((each) => each.equals(key))) {
          this.#lost(`There is a row of an unknown kind, ${key.toString('latin1').slice(0, 40)}.`)
        }
      }
    }
  }

  #checkNumbers(): void {
    const { documentCount, deletedCount, bodyBytes, updateSequence, nextBody } = this.#state
    if (documentCount !== this.#documents)
      this.#derived(`The count of documents is ${documentCount}; there are ${this.#documents}.`)
    if (deletedCount !== this.#tombstones)
      this.#derived(`The count of tombstones is ${deletedCount}; there are ${this.#tombstones}.`)
    if (bodyBytes !== this.#bodyBytes)
      this.#derived(`The size of all bodies is said to be ${bodyBytes} bytes, and is ${this.#bodyBytes}.`)
    if (updateSequence < this.#lastSequence)
      this.#derived(`The update sequence is ${updateSequence}, and there is a change ${this.#lastSequence}.`)
    if (nextBody <= this.#lastBody)
      this.#derived(`The next body is to be ${nextBody}, and there is a body ${this.#lastBody}.`)
  }

  async #checkRanks(salt: Buffer): Promise<void> {
    const ranks = rankTreeOf(salt)
    try {
      const { wrong, extra } = await ranks.check(this.#snapshot)
      if (wrong > 0) this.#derived(`${wrong} nodes of the rank tree are wrong or missing.`)
      if (extra > 0) this.#derived(`${extra} nodes of the rank tree ought not to be there.`)
    } catch (error) {
      this.#derived(`The rank tree cannot be read: ${messageOf(error)}.`)
    }
  }

  /** Something that can be made again from what is right. */
  #derived(problem: string, document?: string): void {
    this.#listener.fault({ document, problem, isRepairable: true })
  }

  /** Something that is nowhere else. */
  #lost(problem: string, document?: string): void {
    this.#listener.fault({ document, problem, isRepairable: false })
  }
}

export function rankTreeOf(salt: Buffer): RankTree {
  return new RankTree({ rowPrefix: DOCUMENT_PREFIX, nodePrefix: RANK_PREFIX, salt, weightOf: weightOfRecord })
}

const MISSING = 'missing'

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

function isJsonObject(bytes: Buffer): boolean {
  try {
    return isObject(JSON.parse(bytes.toString()))
  } catch {
    return false
  }
}

/** Whether all that a new database has is there; what is beside it is of features that one may do without. */
export function hasNumbers(state: DatabaseState): boolean {
  const { compactedTo: _, tombstones: __, expiry: ___, ...numbers } = state
  return Object.values(numbers).every((each) => Number.isSafeInteger(each) && each >= 0)
}

/** Undefined where the row cannot be understood. */
export function idOfChange(value: Buffer): string | undefined {
  try {
    const { id } = decodeChange(value)
    return typeof id === 'string' ? id : undefined
  } catch {
    return undefined
  }
}

export function sequenceOf(record: Buffer): number | undefined {
  try {
    return decodeRecord(record).sequence
  } catch {
    return undefined
  }
}

/** Whether the record needs no tree of its own. */
export function hasTreeInside(record: Buffer): boolean {
  try {
    return decodeRecord(record).tree !== undefined
  } catch {
    return false
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/\.$/, '') : String(error)
}
