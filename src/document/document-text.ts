/**
 * A document as it is sent: its stored text with the underscore members around it. The stored text is spliced in as it
 * is, never parsed.
 */
import { membersOf, quoteText, spliceObject } from '../encoding/json/json-text-splice.ts'
import type { RevisionId, RevisionPath } from './ids.ts'
import type { RevisionNode } from './tree/branch.ts'

export interface DocumentParts {
  readonly id: string
  readonly revision: RevisionId
  /** The stored text, an object without its underscore members. */
  readonly body: Buffer
  readonly deleted?: boolean | undefined
  readonly revisions?: RevisionPath | undefined
  /** The winner and its ancestors, newest first. */
  readonly revisionsInfo?: readonly RevisionNode[] | undefined
  /** Left out when empty, as the deleted ones are. */
  readonly conflicts?: readonly RevisionId[] | undefined
  readonly deletedConflicts?: readonly RevisionId[] | undefined
  readonly localSequence?: number | undefined
  /** The text of a JSON object; contents may make it large, so it is bytes. */
  readonly attachments?: Buffer | undefined
}

/** With `isLine` the text ends with a newline. */
export interface TextOptions {
  readonly isLine?: boolean
}

/** The text before and after the members of a body, for a body that is not to be copied. */
export function splitAroundBody(parts: DocumentParts, textWithoutBody: Buffer): [before: Buffer, after: Buffer] {
  const end = 1 + Buffer.byteLength(headOf(parts))
  return [Buffer.concat([textWithoutBody.subarray(0, end), COMMA]), textWithoutBody.subarray(end)]
}

const COMMA = Buffer.from(',')

function headOf({ id, revision }: DocumentParts): string {
  return `"_id":${quoteText(id)},"_rev":${quoteText(revision)}`
}

export function documentText(parts: DocumentParts, options?: TextOptions): Buffer {
  const head = headOf(parts)
  const { attachments } = parts
  if (attachments === undefined) return spliceObject([head, membersOf(parts.body), trailingMembers(parts)], options)
  const named = [ATTACHMENTS, attachments]
  return spliceObject([head, membersOf(parts.body), trailingMembers(parts), Buffer.concat(named)], options)
}

/** The path for `_revisions`, from a revision and its ancestors. */
export function pathOfAncestry(ancestry: readonly RevisionNode[]): RevisionPath {
  return { start: ancestry[0]?.generation ?? 0, hashes: ancestry.map((node) => node.hash) }
}

const ATTACHMENTS = Buffer.from('"_attachments":')

/** The names of statuses in `_revs_info`. */
const STATUS_NAMES = { live: 'available', deleted: 'deleted', missing: 'missing' } as const

function trailingMembers(parts: DocumentParts): string {
  const members: string[] = []
  if (parts.deleted) members.push('"_deleted":true')
  if (parts.revisions) members.push(`"_revisions":${revisionsText(parts.revisions)}`)
  if (parts.revisionsInfo) members.push(`"_revs_info":${revisionsInfoText(parts.revisionsInfo)}`)
  if (parts.conflicts?.length) members.push(`"_conflicts":${JSON.stringify(parts.conflicts)}`)
  if (parts.deletedConflicts?.length) members.push(`"_deleted_conflicts":${JSON.stringify(parts.deletedConflicts)}`)
  if (parts.localSequence !== undefined) members.push(`"_local_seq":${parts.localSequence}`)
  return members.join(',')
}

function revisionsText(path: RevisionPath): string {
  return JSON.stringify({ start: path.start, ids: path.hashes })
}

function revisionsInfoText(nodes: readonly RevisionNode[]): string {
  return JSON.stringify(nodes.map((node) => ({ rev: node.revision, status: STATUS_NAMES[node.status] })))
}
