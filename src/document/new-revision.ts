/**
 * The id of a new revision: the MD5 of the Erlang term that the reference server hashes. The same edit made here and there
 * gives the same id, so that replication between the two makes no false conflict.
 */
import { hash } from 'node:crypto'
import { TermWriter } from '../encoding/erlang-term.ts'
import { writeHexadecimal } from '../encoding/short-bytes.ts'
import { HASH_BYTES, isHexadecimal } from './hash-list.ts'
import { formatRevision, generationOf, hashOf, type RevisionId } from './revision-id.ts'

/** Everything that the id depends on: neither the document's id nor the time. */
export interface RevisionContent {
  readonly deleted: boolean
  /** The Erlang term of the body, as the scan of the document made it. */
  readonly term: Uint8Array
  /** In the order in which the document lists them. */
  readonly attachments: readonly AttachmentContent[]
}

export interface AttachmentContent {
  readonly name: string
  readonly contentType: string
  /** 16 bytes, of the content as uploaded. */
  readonly md5: Uint8Array
}

export function newRevision(parent: RevisionId | undefined, content: RevisionContent): RevisionId {
  const parentGeneration = parent === undefined ? 0 : generationOf(parent)
  term.reset()
  term.version()
  const list = term.openList()
  term.boolean(content.deleted)
  term.integer(parentGeneration)
  if (parent === undefined) term.integer(0)
  else writeHash(hashOf(parent))
  term.append(content.term, 0, content.term.length)
  writeAttachments(content.attachments)
  term.closeList(list, 5)
  return formatRevision(parentGeneration + 1, hash('md5', term.bytes.subarray(0, term.length), 'hex'))
}

/** The term of an empty body, for the tombstone of a plain DELETE. */
export const EMPTY_BODY_TERM: Uint8Array = Buffer.from([0x68, 0x01, 0x6a])

const term = new TermWriter(16 * 1024)
const parentHash = Buffer.alloc(HASH_BYTES)

function writeHash(hash: string): void {
  if (!isHexadecimal(hash)) term.text(hash)
  else {
    writeHexadecimal(parentHash, 0, hash, 0)
    term.binary(parentHash)
  }
}

/** Last listed first: the order in which the current reference hashes them. */
function writeAttachments(attachments: readonly AttachmentContent[]): void {
  const list = term.openList()
  for (let i = attachments.length - 1; i >= 0; i--) {
    const { name, contentType, md5 } = attachments[i]!
    term.tuple(3)
    term.text(name)
    term.text(contentType)
    term.binary(md5)
  }
  term.closeList(list, attachments.length)
}
