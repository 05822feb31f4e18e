/**
 * Changes read where they are stored, a page at a time: for a replication, which needs ids and revisions and no text.
 * For a document with a single revision the change contains everything, so its record need not be read.
 */
import { formatRevision, type RevisionId } from '../../document/ids.ts'
import type { DatabaseView } from '../database-view.ts'
import { changePlaces, decodeChange } from '../layout/change-row.ts'
import { afterPrefix, CHANGE_PREFIX, changeKey, sequenceOfChangeKey } from '../layout/keys.ts'

export interface LeafChange {
  readonly sequence: number
  readonly id: string
  /** The leaves, the winner first; or the winner alone. */
  readonly revisions: readonly RevisionId[]
  /** Set where the document has this one revision and never had another. */
  readonly only: OnlyRevision | undefined
}

/** The one revision of a document. */
export interface OnlyRevision {
  readonly revision: RevisionId
  readonly hash: string
  readonly deleted: boolean
  /** The number of its body. */
  readonly body: number
}

export interface LeafChanges {
  readonly changes: readonly LeafChange[]
  /** The last sequence that was looked at. */
  readonly looked: number
  /** Whether nothing lies behind them. */
  readonly isEnd: boolean
}

/** Changes that are read at once. */
const PAGE_ROWS = 1000

const AFTER_ALL = afterPrefix(CHANGE_PREFIX)

/** The next changes behind a sequence. */
export async function readLeafChanges(
  { snapshot }: DatabaseView,
  since: number,
  leaves: 'winner' | 'all',
): Promise<LeafChanges> {
  const range = { from: changeKey(since + 1), to: AFTER_ALL }
  const { length, block, bounds, next } = await snapshot.page(range, { rows: PAGE_ROWS })
  const changes: LeafChange[] = []
  for (let row = 0; row < length; row++) {
    const sequence = sequenceOfChangeKey(block, bounds[3 * row])
    changes.push(leafChange(sequence, block, bounds[3 * row + 1]!, bounds[3 * row + 2]!, leaves))
  }
  return { changes, looked: changes.at(-1)?.sequence ?? since, isEnd: next === undefined }
}

function leafChange(sequence: number, block: Buffer, start: number, end: number, leaves: 'winner' | 'all'): LeafChange {
  const { idAt, idEnd, winnerAt, winnerEnd, isPlain, hasOtherLeaves, deleted, body } = changePlaces(block, start, end)
  const isFirst = isFirstRevision(block, winnerAt, winnerEnd)
  if (!isFirst || !isPlain || hasOtherLeaves) {
    const { id, leaves: all } = decodeChange(block.subarray(start, end))
    return { sequence, id, revisions: leaves === 'all' ? all : all.slice(0, 1), only: undefined }
  }
  const hash = block.toString('latin1', winnerAt + FIRST.length, winnerEnd - 1)
  const revision = formatRevision(1, hash)
  const id = block.toString('utf8', idAt + 1, idEnd - 1)
  return { sequence, id, revisions: [revision], only: { revision, hash, deleted, body } }
}

/** What the JSON of a first revision begins with. */
const FIRST = Buffer.from('"1-')
const HASH_LENGTH = 32

/** Whether it is of the first generation, with a hash as servers make it. */
function isFirstRevision(block: Buffer, at: number, end: number): boolean {
  if (end - at !== FIRST.length + HASH_LENGTH + 1) return false
  return block[at] === FIRST[0] && block[at + 1] === FIRST[1] && block[at + 2] === FIRST[2]
}
