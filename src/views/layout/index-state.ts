/**
 * The state of an index: the sequences it has reached and what it belongs to. It is committed together with the rows.
 */
import { randomBytes } from 'node:crypto'
import type { Functions } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import { RankTree, SALT_BYTES } from '../../storage/rank-tree/rank-tree.ts'
import type { Snapshot } from '../../storage/store.ts'
import { indexFormat, type ViewDesign } from '../design/view-design.ts'
import { namedReduction } from '../reductions/named-reduction.ts'
import { ViewReducer } from '../reductions/view-reducer.ts'
import { nodePrefix, rowPrefix, STATE_KEY } from './index-layout.ts'
import type { IndexMemory } from './index-memory.ts'

export interface IndexState {
  /** The format of rows; an index of another format is rebuilt. */
  readonly format: string
  /** Of the database. A database of the same name that came later has another one. */
  readonly uuid: string
  /** The sequences of the database that the index has reached. */
  readonly updateSequence: number
  readonly purgeSequence: number
  /** Decides which rows are boundaries in the rank trees; in hexadecimal digits. */
  readonly salt: string
  /** By the number of the view's rows. */
  readonly views: readonly ViewState[]
}

export interface ViewState {
  /** The sequence at which the last update arrived that changed its rows. */
  readonly lastChange: number
  /** The purge sequence of the last purge that took rows of it; 0 when there was none. */
  readonly lastPurge: number
}

/** The initial state of an index: nothing is indexed, and earlier purges do not matter. */
export function newState(uuid: string, views: number, purgeSequence: number): IndexState {
  return {
    format: indexFormat,
    uuid,
    updateSequence: 0,
    purgeSequence,
    salt: randomBytes(SALT_BYTES).toString('hex'),
    views: Array.from({ length: views }, () => ({ lastChange: 0, lastPurge: 0 })),
  }
}

/** Undefined if the index was never built, or belongs to another database or another format. */
export async function readState(snapshot: Snapshot, uuid: string): Promise<IndexState | undefined> {
  const stored = await snapshot.get(STATE_KEY)
  return stored && decodeState(stored, uuid)
}

/** Reads the state of one index again and again, and parses it when it has changed. */
export class StateReader {
  readonly #uuid: string
  #stored: Buffer | undefined
  #state: IndexState | undefined

  constructor(uuid: string) {
    this.#uuid = uuid
  }

  async read(snapshot: Snapshot): Promise<IndexState | undefined> {
    const stored = await snapshot.get(STATE_KEY)
    if (stored && this.#stored?.equals(stored)) return this.#state
    // Copied: what was read is a slice of memory that others use, and an idle index would keep all of it.
    this.#stored = stored && ownCopy(stored)
    this.#state = stored && decodeState(stored, this.#uuid)
    return this.#state
  }
}

function ownCopy(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

function decodeState(stored: Buffer, uuid: string): IndexState | undefined {
  const state: IndexState = JSON.parse(stored.toString())
  return state.format === indexFormat && state.uuid === uuid ? state : undefined
}

export function encodeState(state: IndexState): Buffer {
  return Buffer.from(JSON.stringify(state))
}

/** The rank tree of a view: counts of its rows, and reductions where the design document has any. */
export interface ViewTree {
  readonly ranks: RankTree
  /** Undefined where there is nothing to reduce. */
  readonly reducer: ViewReducer | undefined
}

/** By the number of the view's rows. The salt is in hexadecimal digits. */
export function viewTrees(
  design: ViewDesign,
  salt: string,
  functions: Functions,
  run: Run,
  memory?: IndexMemory,
): ViewTree[] {
  const saltBytes = Buffer.from(salt, 'hex')
  return design.maps.map(({ reduces }, view) => {
    const reductions = reduces.map((source) => namedReduction(source, design.language, functions, run))
    const reducer = reductions.length > 0 ? new ViewReducer(reductions) : undefined
    const ranks = new RankTree({
      rowPrefix: rowPrefix(view),
      nodePrefix: nodePrefix(view),
      salt: saltBytes,
      ...(reducer && { reducer }),
      memory: memory?.ofTree(salt, view),
    })
    return { ranks, reducer }
  })
}
