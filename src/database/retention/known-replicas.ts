/**
 * The replications that read a database, by what they wrote down in it: each keeps a local document that says how far it
 * came. What one has not seen yet must not be forgotten.
 */
import { isObject } from '../../encoding/json/json-value.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import type { Database } from '../database.ts'
import { decodeLocal } from '../layout/document-record.ts'
import { afterPrefix, idOfLocalKey, LOCAL_PREFIX } from '../layout/keys.ts'

export interface KnownReplica {
  /** Of its log: `_local/…`. */
  readonly id: string
  /** It has seen the changes up to this one. */
  readonly sequence: number
}

/**
 * Of replications from here. The log of one to here looks the same, and has a sequence of the other database: it may hold
 * back more than it must, and never less.
 */
export async function knownReplicas(database: Database): Promise<KnownReplica[]> {
  const replicas: KnownReplica[] = []
  let rest: KeyRange | undefined = { from: LOCAL_PREFIX, to: afterPrefix(LOCAL_PREFIX) }
  while (rest) {
    using view = database.view()
    const page: Page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      const id = idOfLocalKey(page.key(row))
      if (id.startsWith(IMPORT_LOGS)) continue
      const sequence = sequenceIn(decodeLocal(page.value(row)).text)
      if (sequence !== undefined) replicas.push({ id, sequence })
    }
    rest = page.next
  }
  return replicas
}

/** Checkpoints of `settle import` into this database: they do not belong to a replica. */
const IMPORT_LOGS = '_local/import-'

/** Undefined where the document is no log. */
function sequenceIn(text: Buffer): number | undefined {
  if (!text.includes('last_seq')) return undefined
  try {
    const log: unknown = JSON.parse(text.toString())
    if (!isObject(log)) return undefined
    return numberOf(log.source_last_seq ?? log.last_seq)
  } catch {
    return undefined
  }
}

/** Of a text only its number counts, as in dialect 3. */
function numberOf(sequence: unknown): number | undefined {
  if (typeof sequence === 'number') return sequence
  const [, digits] = typeof sequence === 'string' ? (/^(\d{1,15})(?:-|$)/.exec(sequence) ?? []) : []
  return digits === undefined ? undefined : Number(digits)
}
