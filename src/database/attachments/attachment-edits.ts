/**
 * Turns the `_attachments` member of a document into the attachments of its new revision. Contents that came with the
 * document are stored; stubs refer to those of the parent revision.
 */
import type { Configuration } from '../../config/configuration.ts'
import { attachmentMembers } from '../../document/attachment-text.ts'
import type { AttachmentField } from '../../document/document-fields.ts'
import type { RevisionId, RevisionPath } from '../../document/ids.ts'
import { badRequest, conflict, missingStub, RequestError } from '../../document/request-error.ts'
import type { RevisionNode } from '../../document/tree/branch.ts'
import { decodeBase64 } from '../../encoding/json/base64-text.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { Database } from '../database.ts'
import type { DatabaseView } from '../database-view.ts'
import type { AttachmentRecord } from '../layout/stored-body.ts'
import type { EditedAttachment } from '../writing/edit.ts'
import type { StagedAttachment } from './attachment-store.ts'
import type { ContentLimit } from './content-check.ts'

/** Which content is accepted, and which is compressed when it is stored. */
export interface AttachmentPolicy {
  /** The compression level; undefined where it is stored as it is. */
  levelFor(contentType: string): number | undefined
  /** How large the attachment of this name may be; undefined where it may have any size. */
  limitFor(name: string): ContentLimit | undefined
  /** Throws where inline content does not match what its sender announced. Omitted, any content is accepted. */
  checkInline?(announced: AnnouncedContent, md5: string): void
}

/** What a document says about inline content. */
export interface AnnouncedContent {
  readonly name: string
  readonly digest: string | undefined
}

export interface AttachmentEdits {
  readonly attachments: readonly EditedAttachment[]
  /** Set where stubs refer to nothing, and the edit is expected to be refused anyway: see `edit.ts`. */
  readonly refusal?: RequestError
  /** To be called when the document was written, or will not be. */
  release(): void
}

/** The revision that stubs refer to: a named parent, or the history of one that another server made. */
export type StubParent =
  | { readonly kind: 'interactive' | 'branching'; readonly parent: RevisionId | undefined }
  | { readonly kind: 'replicated'; readonly path: RevisionPath }

export const NO_EDITS: AttachmentEdits = { attachments: [], release: () => {} }

export const DEFAULT_CONTENT_TYPE = 'application/octet-stream'

/** `followed` holds the contents that came in separate parts, by name. */
export async function attachmentEdits(
  database: Database,
  id: string,
  fields: readonly AttachmentField[],
  parent: StubParent,
  policy: AttachmentPolicy,
  followed: ReadonlyMap<string, StagedAttachment> = new Map(),
): Promise<AttachmentEdits> {
  if (fields.length === 0) return NO_EDITS
  const entries = fields.map(entryIn)
  const releases: (() => void)[] = []
  const release = () => {
    for (const each of releases) each()
  }
  try {
    const kept = entries.some(({ kind }) => kind === 'stub') ? await stubSource(database, id, parent) : undefined
    if (kept instanceof RequestError) return { attachments: [], refusal: kept, release }
    const isReplicated = parent.kind === 'replicated'
    const attachments: EditedAttachment[] = []
    const slice = new TimeSlice()
    for (const entry of entries) {
      if (slice.isOverNow) await slice.pause()
      const { name, contentType = DEFAULT_CONTENT_TYPE } = entry
      const revpos = isReplicated ? (entry.revpos ?? 0) : undefined
      if (entry.kind === 'stub') {
        const record = keptAttachment(id, entry, kept)
        const releaseKept = await database.attachments.keep(record)
        if (!releaseKept) throw missingStub(`id:${id}, name:${name}`)
        releases.push(releaseKept)
        attachments.push({ ...record, puts: [] })
        continue
      }
      const staged =
        entry.kind === 'follows'
          ? followed.get(name)
          : await database.attachments.stageWhole(entry.data, {
              packLevel: policy.levelFor(contentType),
              limit: policy.limitFor(name),
            })
      if (!staged) throw badRequest(`The content of attachment ${name} does not follow.`)
      releases.push(staged.release)
      if (entry.kind === 'inline') policy.checkInline?.(entry, staged.content.md5)
      attachments.push({ ...staged.content, name, contentType, revpos, puts: staged.puts })
    }
    return { attachments, release }
  } catch (error) {
    release()
    throw error
  }
}

function entryIn({ name, text, data }: AttachmentField): AttachmentEntry {
  const read = attachmentMembers(text)
  return entryOf(name, read.members, data ?? read.data)
}

export type AttachmentEntry = {
  readonly name: string
  readonly contentType: string | undefined
  readonly revpos: number | undefined
} & (
  | { readonly kind: 'inline'; readonly data: Buffer; readonly digest: string | undefined }
  | { readonly kind: 'stub' }
  | {
      readonly kind: 'follows'
      readonly length: number | undefined
      readonly encoding: 'gzip' | undefined
      readonly encodedLength: number | undefined
      readonly digest: string | undefined
    }
)

/** What a document says of one attachment. */
export function entryOf(name: string, value: Record<string, unknown>, data?: Buffer): AttachmentEntry {
  const common = {
    name,
    contentType: value.content_type === undefined ? undefined : checkedContentType(name, value.content_type),
    revpos: countIn(value, 'revpos'),
  }
  if (value.stub === true) return { ...common, kind: 'stub' }
  if (value.follows === true) {
    return {
      ...common,
      kind: 'follows',
      length: countIn(value, 'length'),
      encoding: value.encoding === 'gzip' ? 'gzip' : undefined,
      encodedLength: countIn(value, 'encoded_length'),
      digest: textIn(value, 'digest'),
    }
  }
  return { ...common, kind: 'inline', data: data ?? inlineContent(name, value.data), digest: textIn(value, 'digest') }
}

/** A content type is sent in headers, so it must be a valid header value. */
export function checkedContentType(name: string, value: unknown): string {
  if (typeof value === 'string' && value.length <= LONGEST_CONTENT_TYPE && /^[\x20-\x7e]+$/.test(value)) return value
  throw badRequest(`Invalid content type of attachment ${name}`)
}

/** Longer than any real type, and shorter than the header limit of clients. */
const LONGEST_CONTENT_TYPE = 1000

function countIn(value: Record<string, unknown>, name: string): number | undefined {
  const number = value[name]
  if (number === undefined) return undefined
  if (typeof number === 'number' && Number.isSafeInteger(number) && number >= 0) return number
  throw badRequest(`Invalid attachment ${name}: ${JSON.stringify(number)}`)
}

function textIn(value: Record<string, unknown>, name: string): string | undefined {
  const text = value[name]
  return typeof text === 'string' ? text : undefined
}

function inlineContent(name: string, data: unknown): Buffer {
  const bytes = typeof data === 'string' ? decodeBase64(data) : undefined
  if (!bytes) throw badRequest(`Invalid attachment data for ${name}`)
  return bytes
}

function keptAttachment(
  id: string,
  { name, revpos }: AttachmentEntry,
  kept: readonly AttachmentRecord[] | undefined,
): AttachmentRecord {
  const record = kept?.find((each) => each.name === name)
  if (!record || (revpos !== undefined && revpos !== record.revpos)) throw missingStub(`id:${id}, name:${name}`)
  return record
}

/** The attachments that stubs may refer to; a refusal where the edit cannot be written anyway. */
async function stubSource(
  database: Database,
  id: string,
  parent: StubParent,
): Promise<readonly AttachmentRecord[] | RequestError> {
  using view = database.view()
  const record = await view.record(id)
  if (parent.kind === 'replicated') return await replicatedSource(view, id, parent.path)
  // A branch is also written where an edit would conflict. Without a parent there are no attachments to keep.
  const nothing = parent.kind === 'branching' ? [] : conflict()
  if (!record) return parent.parent === undefined ? [] : nothing
  const tree = await view.tree(id, record)
  if (parent.parent === undefined && !record.deleted) return nothing
  const node = tree.find(parent.parent ?? record.winner)
  return node && node.status !== 'missing' ? await attachmentsOf(view, node) : nothing
}

/** The attachments of the nearest ancestor that has a body. A known revision needs none. */
async function replicatedSource(
  view: DatabaseView,
  id: string,
  path: RevisionPath,
): Promise<readonly AttachmentRecord[] | RequestError> {
  const record = await view.record(id)
  const tree = record && (await view.tree(id, record))
  const place = tree?.locate(path.start, path.hashes[0] ?? '')
  const missing = missingStub(`Previous revision missing for document ${id}`)
  if (tree && place && tree.nodeAt(place).status !== 'missing') return missing
  const nearest = tree?.nearestBody(path)
  if (!nearest) throw missing
  return attachmentsOf(view, nearest)
}

async function attachmentsOf(view: DatabaseView, { body }: RevisionNode): Promise<readonly AttachmentRecord[]> {
  return (await view.body(body)).attachments
}

/** Which attachments are accepted and which are compressed, by the configuration. */
export function attachmentPolicy(configuration: Configuration): AttachmentPolicy {
  const level = configuration.integer('attachments', 'compression_level')
  const types = configuration.text('attachments', 'compressible_types')
  const largest = configuration.text('service', 'max_attachment_size')
  return {
    levelFor: (contentType) => (level >= 1 && level <= 9 && isListed(contentType, types) ? level : undefined),
    limitFor: (name) => (largest === 'infinity' ? undefined : { name, bytes: Number(largest) }),
  }
}

/** The list may have wildcards. The parameters and the case of a type do not matter. */
function isListed(contentType: string, types: string): boolean {
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase()
  return types
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((pattern) => pattern !== '')
    .some((pattern) => {
      const [before, after] = pattern.split('*', 2)
      return after === undefined ? type === pattern : type.startsWith(before!) && type.endsWith(after)
    })
}
