/** Which document belongs to a row: its own, or the one that its value names by `_id`, `_rev` or both. */
import { parseRevision, type RevisionId } from '../../document/revisions/revision-id.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { StoredRow } from '../layout/index-layout.ts'

export interface LinkedDocument {
  readonly id: string
  /** Undefined for the winner. */
  readonly revision: RevisionId | undefined
}

/** Undefined where the value names what cannot be a document. */
export function linkedDocument(row: StoredRow): LinkedDocument | undefined {
  const own: string = JSON.parse(row.id.toString())
  const value = mayLink(row.value) ? JSON.parse(row.value.toString()) : undefined
  if (!isObject(value)) return { id: own, revision: undefined }
  const { _id: id = own, _rev: revision } = value
  if (typeof id !== 'string' || !id.isWellFormed()) return undefined
  if (revision === undefined) return { id, revision: undefined }
  const parsed = parsedRevision(revision)
  return parsed === undefined ? undefined : { id, revision: parsed }
}

const OPEN_BRACE = 0x7b

/** Most values need not be parsed to know that they name nothing. */
function mayLink(value: Buffer): boolean {
  return value[0] === OPEN_BRACE && (value.includes('"_id"') || value.includes('"_rev"'))
}

function parsedRevision(value: unknown): RevisionId | undefined {
  try {
    return parseRevision(value)
  } catch {
    return undefined
  }
}
