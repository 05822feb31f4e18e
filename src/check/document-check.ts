/**
 * Checks one document against its rows: its change, its revision tree, the bodies and the attachments of all its revisions.
 * Remembers which bodies and attachments it has seen, since no two revisions share a body and many share an attachment.
 */
import { createHash } from 'node:crypto'
import { slicesOf } from '../database/attachments/chunk-writer.ts'
import { decodeChange } from '../database/layout/change-row.ts'
import type { DocumentRecord } from '../database/layout/document-record.ts'
import { attachmentKey, bodyKey } from '../database/layout/keys.ts'
import { type AttachmentRecord, decodeBody, type StoredBody, sizeOfBody } from '../database/layout/stored-body.ts'
import { leavesBestFirst, winner } from '../document/revisions/winner.ts'
import type { RevisionTree } from '../document/tree/revision-tree.ts'
import type { Snapshot } from '../storage/store.ts'
import { isJsonObject } from './checked-rows.ts'
import { type FaultReporter, messageOf } from './fault.ts'
import { NumberSet } from './number-set.ts'

/** Instead of the digest of an attachment whose bytes are not all there. */
const MISSING = 'missing'

export class DocumentCheck {
  /** The numbers of all bodies that revisions refer to. */
  readonly usedBodies = new NumberSet()
  readonly #snapshot: Snapshot
  readonly #faults: FaultReporter
  readonly #attachments = new NumberSet()
  /** The digests of attachments that were read, of one document at a time: those of all documents would not fit into memory. */
  #digests: { readonly id: string; readonly byNumber: Map<number, string> } = { id: '', byNumber: new Map() }

  constructor(snapshot: Snapshot, faults: FaultReporter) {
    this.#snapshot = snapshot
    this.#faults = faults
  }

  get attachmentCount(): number {
    return this.#attachments.size
  }

  checkChange(id: string, record: DocumentRecord, tree: RevisionTree | undefined, stored: Buffer | undefined): void {
    if (!stored) {
      this.#faults.derived(`Its change ${record.sequence} is missing.`, id)
      return
    }
    try {
      const change = decodeChange(stored)
      if (change.id !== id) {
        this.#faults.derived(`Its change ${record.sequence} is of '${change.id}'.`, id)
        return
      }
      if (change.sequence !== record.sequence)
        this.#faults.derived(`Its change ${record.sequence} says ${change.sequence}.`, id)
      if (!tree) return
      const best = winner(tree)
      if (change.deleted !== (best.status === 'deleted') || change.body !== best.body) {
        this.#faults.derived('Its change does not show its winning revision.', id)
      }
      const leaves = leavesBestFirst(tree).map(({ revision }) => revision)
      if (change.leaves.join() !== leaves.join()) this.#faults.derived('Its change does not list its leaves.', id)
    } catch (error) {
      this.#faults.derived(`Its change ${record.sequence} cannot be understood: ${messageOf(error)}.`, id)
    }
  }

  async checkRecord(id: string, record: DocumentRecord, tree: RevisionTree): Promise<void> {
    const best = winner(tree)
    if (record.winner !== best.revision)
      this.#faults.derived(`It shows ${record.winner}, and ${best.revision} wins.`, id)
    if (record.deleted !== (best.status === 'deleted'))
      this.#faults.derived('Whether it is deleted is not what its winner says.', id)
    if (record.body !== best.body)
      this.#faults.derived(`It shows the body ${record.body}, its winner has ${best.body}.`, id)
    const hasOldBodies = tree.bodies().length > tree.branches.length
    if (record.hasOldBodies !== hasOldBodies)
      this.#faults.derived('Whether it has old bodies is not what its tree says.', id)
    this.#checkTree(id, tree)
    let hasAttachments = false
    for (const number of tree.bodies()) {
      const body = await this.#checkBody(id, number)
      if (!body) continue
      hasAttachments ||= body.attachments.length > 0
      if (number === best.body && record.bodyBytes !== sizeOfBody(body)) {
        this.#faults.derived(`Its size is said to be ${record.bodyBytes} bytes, and is ${sizeOfBody(body)}.`, id)
      }
      for (const attachment of body.attachments) await this.#checkAttachment(id, attachment)
    }
    if (hasAttachments && !record.hasAttachments) this.#faults.derived('It has attachments and says otherwise.', id)
  }

  #checkTree(id: string, tree: RevisionTree): void {
    const seen = new Set<string>()
    for (const leaf of tree.leaves()) {
      if (leaf.status === 'missing') this.#faults.lost(`The leaf ${leaf.revision} has no body.`, id)
    }
    for (const [branch, { bodies }] of tree.branches.entries()) {
      for (let index = 0; index < bodies.length; index++) {
        const { revision } = tree.nodeAt({ branch, index })
        if (seen.has(revision)) this.#faults.lost(`The revision ${revision} is in its tree twice.`, id)
        seen.add(revision)
      }
    }
  }

  async #checkBody(id: string, number: number): Promise<StoredBody | undefined> {
    if (!this.usedBodies.add(number)) this.#faults.lost(`Its body ${number} is also one of another revision.`, id)
    const stored = await this.#snapshot.get(bodyKey(number))
    if (!stored) {
      this.#faults.lost(`Its body ${number} is missing.`, id)
      return undefined
    }
    try {
      const body = decodeBody(stored)
      if (!isJsonObject(body.text)) throw new Error('it is not a JSON object')
      return body
    } catch (error) {
      this.#faults.lost(`Its body ${number} cannot be understood: ${messageOf(error)}.`, id)
      return undefined
    }
  }

  async #checkAttachment(id: string, { name, number, storedLength, storedMd5 }: AttachmentRecord): Promise<void> {
    if (this.#digests.id !== id) this.#digests = { id, byNumber: new Map() }
    const { byNumber } = this.#digests
    const digest = byNumber.get(number) ?? (await this.#digestOf(number, storedLength))
    byNumber.set(number, digest)
    this.#attachments.add(number)
    if (digest === storedMd5) return
    this.#faults.lost(
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
}
