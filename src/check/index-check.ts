/**
 * Checks the store of an index for consistency: the rows of each document against the rows of the views, and the rank trees with
 * their reductions against those rows. Reductions by functions of design documents are not checked. An index can always be
 * rebuilt from its database.
 */
import { decodeRecord, summarizeRecord } from '../database/layout/document-record.ts'
import {
  bodyKey,
  documentKey as databaseDocumentKey,
  idOfDocumentKey as idOfDatabaseKey,
} from '../database/layout/keys.ts'
import { decodeBody } from '../database/layout/stored-body.ts'
import { RankTree, type Reducer } from '../storage/rank-tree/rank-tree.ts'
import type { Snapshot } from '../storage/store.ts'
import {
  indexFormat,
  type MapDefinition,
  parseViewDesign,
  partsOf,
  type ViewDesign,
} from '../views/design/view-design.ts'
import {
  decodeDocumentRows,
  documentKey,
  escapeId,
  NO_SCOPE,
  nodePrefix,
  rowKeyOf,
  rowPrefix,
  STATE_KEY,
  StoredRow,
  scopeOfDocument,
} from '../views/layout/index-layout.ts'
import type { IndexState } from '../views/layout/index-state.ts'
import { nativeReduction } from '../views/reductions/named-reduction.ts'
import { ViewReducer } from '../views/reductions/view-reducer.ts'
import { pagesOf } from './checked-rows.ts'
import type { CheckedDatabase } from './database-check.ts'
import { type CheckListener, messageOf } from './fault.ts'

/** The database of the index, in a snapshot taken after that of the index. */
export interface DatabaseOfIndex extends CheckedDatabase {
  readonly snapshot: Snapshot
  readonly designs: ReadonlyMap<string, ViewDesign>
}

export type IndexOutcome = 'checked' | 'outdated' | 'unused'

/** The definitions of views in the database, by their signatures. */
export async function designsIn(snapshot: Snapshot, isPartitioned: boolean): Promise<Map<string, ViewDesign>> {
  const designs = new Map<string, ViewDesign>()
  const range = { from: databaseDocumentKey('_design/'), to: databaseDocumentKey('_design0') }
  for await (const page of pagesOf(snapshot, range)) {
    for (let row = 0; row < page.length; row++) {
      try {
        const { deleted, body } = summarizeRecord(page.value(row))
        const stored = deleted ? undefined : await snapshot.get(bodyKey(body))
        if (!stored) continue
        const text = decodeBody(stored).text.toString()
        const design = parseViewDesign(idOfDatabaseKey(page.key(row)), text, { isPartitioned })
        for (const each of [design, ...partsOf(design)]) designs.set(each.signature, each)
      } catch {
        // The check of the database reports it.
      }
    }
  }
  return designs
}

export async function checkIndex(
  snapshot: Snapshot,
  signature: string,
  database: DatabaseOfIndex,
  listener: CheckListener,
): Promise<IndexOutcome> {
  const design = database.designs.get(signature)
  if (!design) return 'unused'
  const stored = await snapshot.get(STATE_KEY)
  if (!stored) return 'outdated'
  const state = stateIn(stored)
  if (!state) {
    listener.fault({ problem: 'The row of its state cannot be understood.', isRepairable: true })
    return 'checked'
  }
  // The server rebuilds such an index by itself.
  if (state.format !== indexFormat || state.uuid !== database.identity?.uuid) return 'outdated'
  await new IndexCheck(snapshot, design, state, listener).run(database)
  return 'checked'
}

function stateIn(stored: Buffer): IndexState | undefined {
  try {
    const state: IndexState = JSON.parse(stored.toString())
    return typeof state.salt === 'string' && Array.isArray(state.views) ? state : undefined
  } catch {
    return undefined
  }
}

const DOCUMENT_ROWS = { from: documentKey(Buffer.alloc(0)), to: Buffer.of((documentKey(Buffer.alloc(0))[0] ?? 0) + 1) }

class IndexCheck {
  readonly #snapshot: Snapshot
  readonly #design: ViewDesign
  readonly #state: IndexState
  readonly #listener: CheckListener
  /** Rows that documents list and that exist, by view. */
  readonly #listed: number[]

  constructor(snapshot: Snapshot, design: ViewDesign, state: IndexState, listener: CheckListener) {
    this.#snapshot = snapshot
    this.#design = design
    this.#state = state
    this.#listener = listener
    this.#listed = design.maps.map(() => 0)
  }

  async run(database: DatabaseOfIndex): Promise<void> {
    await this.#checkDocuments(database)
    this.#listener.progress(0.4)
    for (const [view, map] of this.#design.maps.entries()) {
      await this.#checkRows(view)
      await this.#checkTree(view, map)
      this.#listener.progress(0.4 + (0.6 * (view + 1)) / this.#design.maps.length)
    }
  }

  async #checkDocuments(database: DatabaseOfIndex): Promise<void> {
    const { state } = database
    const isCurrent =
      this.#state.updateSequence === state.updateSequence && this.#state.purgeSequence === state.purgeSequence
    if (this.#state.updateSequence > state.updateSequence) this.#fault('It is ahead of its database.')
    for await (const page of pagesOf(this.#snapshot, DOCUMENT_ROWS)) {
      const ids = Array.from({ length: page.length }, (_, row) => page.key(row).toString('utf8', 1))
      if (isCurrent) await this.#checkPresence(database.snapshot, ids)
      for (const [row, id] of ids.entries()) await this.#checkRowsOf(id, page.value(row))
    }
  }

  /** Documents with rows must be there, and live. */
  async #checkPresence(database: Snapshot, ids: readonly string[]): Promise<void> {
    const records = await database.getMany(ids.map(databaseDocumentKey))
    for (const [i, id] of ids.entries()) {
      const record = records[i]
      if (!record || decodeRecord(record).deleted) this.#fault('It has rows, and the database does not have it.', id)
    }
  }

  async #checkRowsOf(id: string, stored: Buffer): Promise<void> {
    try {
      const escaped = escapeId(Buffer.from(id))
      const scope = this.#design.isPartitioned ? scopeOfDocument(escaped) : NO_SCOPE
      const places = decodeDocumentRows(stored)
      const rows = await this.#snapshot.getMany(places.map((place) => rowKeyOf(place, escaped, scope)))
      for (const [i, { view }] of places.entries()) {
        const row = rows[i]
        if (view >= this.#listed.length) this.#fault(`It has rows of a view ${view}, which is not there.`, id)
        else if (!row) this.#fault(`A row of it is missing in the view ${this.#nameOf(view)}.`, id)
        else {
          this.#listed[view]!++
          if (!isRowOf(row, id)) this.#fault(`A row of it in the view ${this.#nameOf(view)} cannot be understood.`, id)
        }
      }
    } catch (error) {
      this.#fault(`The list of its rows cannot be understood: ${messageOf(error)}.`, id)
    }
  }

  async #checkRows(view: number): Promise<void> {
    const prefix = rowPrefix(view)
    let count = 0
    const range = { from: prefix, to: rowPrefix(view + 1) }
    for await (const page of pagesOf(this.#snapshot, range, { keysOnly: true })) count += page.length
    const listed = this.#listed[view] ?? 0
    if (count !== listed)
      this.#fault(`The view ${this.#nameOf(view)} has ${count} rows; documents list ${listed} of them.`)
  }

  async #checkTree(view: number, { reduces }: MapDefinition): Promise<void> {
    const reductions = reduces.map((source) => nativeReduction(source, this.#design.language))
    const known = reductions.filter((each) => each !== undefined)
    const weightsOnly = known.length < reductions.length
    const reducer = reductions.length === 0 ? undefined : weightsOnly ? NO_REDUCTIONS : new ViewReducer(known)
    const ranks = new RankTree({
      rowPrefix: rowPrefix(view),
      nodePrefix: nodePrefix(view),
      salt: Buffer.from(this.#state.salt, 'hex'),
      ...(reducer && { reducer }),
    })
    try {
      const { wrong, extra } = await ranks.check(this.#snapshot, { weightsOnly })
      if (wrong > 0)
        this.#fault(`${wrong} nodes of the rank tree of the view ${this.#nameOf(view)} are wrong or missing.`)
      if (extra > 0)
        this.#fault(`${extra} nodes of the rank tree of the view ${this.#nameOf(view)} ought not to be there.`)
    } catch (error) {
      this.#fault(`The rank tree of the view ${this.#nameOf(view)} cannot be read: ${messageOf(error)}.`)
    }
  }

  #nameOf(view: number): string {
    const [name] = [...this.#design.views].find(([, { number }]) => number === view) ?? [String(view)]
    return `'${name}' of ${this.#design.id}`
  }

  #fault(problem: string, document?: string): void {
    this.#listener.fault({ document, problem, isRepairable: true })
  }
}

/** It must not be empty. */
const NO_REDUCTION = Buffer.of(0)

/** In place of functions, which cannot be called here. */
const NO_REDUCTIONS: Reducer = {
  reduce: async (groups) => groups.map(() => NO_REDUCTION),
  rereduce: async (groups) => groups.map(() => NO_REDUCTION),
}

function isRowOf(stored: Buffer, id: string): boolean {
  try {
    const row = new StoredRow(stored)
    const line: unknown = JSON.parse(row.line.toString())
    return typeof line === 'object' && line !== null && Reflect.get(line, 'id') === id
  } catch {
    return false
  }
}
