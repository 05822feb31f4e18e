/**
 * Changes as a feed shows them: blocks of lines from a sequence on. Lines are stored ready to be sent, so most blocks are
 * copied. Documents are read only where they are shown or filtered.
 */
import type { KeyRange } from '../../storage/store.ts'
import type { DatabaseView } from '../database-view.ts'
import { decodeStored, type StoredChange } from '../layout/change-row.ts'
import { afterPrefix, CHANGE_PREFIX, changeKey } from '../layout/keys.ts'
import { ChangeBlockWriter, type LineFrame } from './change-block-writer.ts'
import { type DocumentsInFeed, type WrittenLines, writeDocuments } from './change-documents.ts'
import { type ChangeFilter, type FilteredChange, passingChanges } from './change-filter.ts'

/** What is wanted of each change, and in which form. */
export interface ChangesWanted {
  readonly leaves: 'winner' | 'all'
  readonly documents: DocumentsInFeed | undefined
  readonly filter: ChangeFilter | undefined
  readonly frame: LineFrame
}

/** Where to continue: after this sequence, in one of the directions. */
export interface ChangesPlace {
  readonly sequence: number
  readonly descending: boolean
}

export interface ChangeBlock {
  /** How many changes are in it, and their lines. Text in pieces is made while it is read. */
  readonly rows: number
  readonly text: Buffer | AsyncIterable<string | Buffer>
  /** The last sequence that was looked at; the place itself if there was none. */
  readonly looked: number
  /** The last sequence that is in it. */
  readonly shown: number | undefined
  /** Whether nothing lies behind it. */
  readonly isEnd: boolean
}

/** The next changes behind the place, `limit` of them at most. A block may be empty and not the end. */
export async function readChanges(
  view: DatabaseView,
  place: ChangesPlace,
  limit: number,
  wanted: ChangesWanted,
): Promise<ChangeBlock> {
  const rows = isPlain(wanted) ? Math.min(limit, PLAIN_ROWS) : EXAMINED_ROWS
  const { length, block, bounds, next } = await view.snapshot.page(rangeBehind(place), { rows })
  const changes: StoredChange[] = []
  for (let row = 0; row < length; row++) {
    const sequence = sequenceAt(block, bounds[3 * row]!)
    changes.push({ sequence, source: block, start: bounds[3 * row + 1]!, end: bounds[3 * row + 2]! })
  }
  const looked = changes.at(-1)?.sequence ?? place.sequence
  return writeBlock(view, { changes, looked, isEnd: next === undefined, place }, limit, wanted)
}

/**
 * The same of changes whose sequences are known. A change that no longer exists is skipped: the document changed again
 * since.
 */
export async function readChangesAt(
  view: DatabaseView,
  sequences: readonly number[],
  place: ChangesPlace,
  limit: number,
  wanted: ChangesWanted,
): Promise<ChangeBlock> {
  const some = sequences.slice(0, EXAMINED_ROWS)
  const stored = await view.snapshot.getMany(some.map(changeKey))
  const changes = some.flatMap((sequence, i): StoredChange[] => {
    const source = stored[i]
    return source ? [{ sequence, source, start: 0, end: source.length }] : []
  })
  const looked = some.at(-1) ?? place.sequence
  return writeBlock(view, { changes, looked, isEnd: some.length === sequences.length, place }, limit, wanted)
}

/** Whether there is any change behind the place. */
export async function hasChangesBehind({ snapshot }: DatabaseView, place: ChangesPlace): Promise<boolean> {
  return (await snapshot.page(rangeBehind(place), { rows: 1 })).length > 0
}

/** Changes that are looked at for one block. */
const PLAIN_ROWS = 1000
const EXAMINED_ROWS = 100

const AFTER_ALL = afterPrefix(CHANGE_PREFIX)

function isPlain({ filter, documents }: ChangesWanted): boolean {
  return filter === undefined && documents === undefined
}

function rangeBehind({ sequence, descending }: ChangesPlace): KeyRange {
  if (!descending) return { from: changeKey(sequence + 1), to: AFTER_ALL }
  return { from: CHANGE_PREFIX, to: Number.isFinite(sequence) ? changeKey(sequence) : AFTER_ALL, reverse: true }
}

/** The sequence in the key of a change that begins here. */
function sequenceAt(block: Buffer, start: number): number {
  return block.readUInt32BE(start + 1) * 0x1_0000_0000 + block.readUInt32BE(start + 5)
}

interface FoundChanges {
  readonly changes: readonly StoredChange[]
  /** The last sequence that was looked at for them. */
  readonly looked: number
  readonly isEnd: boolean
  /** What they were found behind. */
  readonly place: ChangesPlace
}

async function writeBlock(
  view: DatabaseView,
  { changes, looked, isEnd, place }: FoundChanges,
  limit: number,
  wanted: ChangesWanted,
): Promise<ChangeBlock> {
  const writer = new ChangeBlockWriter(wanted.frame)
  if (isPlain(wanted)) {
    for (const change of changes) {
      writer.begin(change, wanted.leaves)
      writer.end(change.sequence)
    }
    return blockOf(writer, { text: writer.take(), looked, isEnd })
  }
  const passing = await passingChanges(view, changes.map(decodeStored), wanted.leaves, wanted.filter)
  const some = passing.slice(0, limit)
  const { text, written } = wanted.documents
    ? await writeDocuments(view, some, wanted.documents, writer)
    : writeLines(some, writer)
  if (written === passing.length && written < limit) return blockOf(writer, { text, looked, isEnd })
  // What comes behind the last one shown was not looked at: it may still be asked for.
  return blockOf(writer, { text, looked: some[written - 1]?.change.stored.sequence ?? place.sequence, isEnd: false })
}

function writeLines(passing: readonly FilteredChange[], writer: ChangeBlockWriter): WrittenLines {
  for (const { change, leaves } of passing) {
    writer.beginLeaves(change, leaves)
    writer.end(change.stored.sequence)
  }
  return { text: writer.take(), written: passing.length }
}

function blockOf(
  { rows, shown }: ChangeBlockWriter,
  block: Pick<ChangeBlock, 'text' | 'looked' | 'isEnd'>,
): ChangeBlock {
  return { rows, shown, ...block }
}
