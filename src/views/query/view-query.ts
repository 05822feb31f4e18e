/** A view query, from its parameters to its rows, over one state of the index. */
import assert from 'node:assert/strict'
import type { Database } from '../../database/database.ts'
import type { LastingView } from '../../database/database-view.ts'
import type { RowBlock } from '../../database/listing/listed-rows.ts'
import { notFound, type RequestError } from '../../document/request-error.ts'
import type { Snapshot } from '../../storage/store.ts'
import type { DesignPlace, ViewDesign } from '../design/view-design.ts'
import type { Client, OpenIndex, OpenView } from '../reading/open-index.ts'
import type { Views } from '../views.ts'
import { MapRows } from './map-rows.ts'
import { planQuery, planText, type QueryPlan } from './query-plan.ts'
import { ReducedRows } from './reduced-rows.ts'
import { RowDocuments } from './row-documents.ts'
import { type BegunQuery, RowQuery, type RowQueryHead, type StoredRows, TextRows } from './row-query.ts'
import { type GivenParameter, readParameters } from './view-parameters.ts'

export interface PlannedQuery {
  readonly database: Database
  readonly design: ViewDesign
  readonly name: string
  readonly plan: QueryPlan
  /** Aborts the wait for the index. */
  readonly client?: Client
}

/** Checks a request before anything is done for it. Later parameters win. */
export function planView(
  database: DesignPlace,
  design: ViewDesign,
  name: string,
  parameters: readonly GivenParameter[],
): QueryPlan {
  const named = design.views.get(name)
  if (!named) {
    // Parameters that cannot be parsed are reported first.
    readParameters(parameters)
    throw missingView()
  }
  const partitioning = database.isPartitioned ? (design.isPartitioned ? 'by partition' : 'global') : 'none'
  return planQuery(parameters, design.options, { hasReduce: named.reduce !== undefined, partitioning })
}

/** Waits until the index is as fresh as the query requires. */
export function openView(views: Views, query: PlannedQuery): RowQuery | Promise<RowQuery> {
  const { database, design, name, plan, client } = query
  const index = views.openIndexOf(name, database, design, plan.freshness, client)
  return index instanceof Promise ? index.then((opened) => openIn(opened, query)) : openIn(index, query)
}

function openIn(index: OpenIndex, { database, name, plan }: PlannedQuery): RowQuery | Promise<RowQuery> {
  const view = index.view(name)
  if (view) return ViewQuery.open({ index, view, name, plan, database })
  index.release()
  throw missingView()
}

export function missingView(): RequestError {
  return notFound('missing_named_view')
}

interface QueryParts {
  readonly index: OpenIndex
  readonly view: OpenView
  readonly name: string
  readonly plan: QueryPlan
  readonly database: Database
}

class ViewQuery extends RowQuery {
  readonly #parts: QueryParts
  /** Where documents are read from; opened after the index or beside it, so that they are not older than the rows. */
  readonly #documents: LastingView | undefined

  static open(parts: QueryParts): ViewQuery | Promise<ViewQuery> {
    return parts.plan.includeDocs
      ? ViewQuery.#openDocuments(parts)
      : new ViewQuery(parts, undefined, versionOf(parts, []))
  }

  /** Documents can change without the rows: with them, the answer depends on the update sequence. */
  static async #openDocuments(parts: QueryParts): Promise<ViewQuery> {
    let documents: LastingView | undefined
    try {
      // Throws where the database was deleted since the index was opened.
      documents = parts.database.lastingView(parts.view.snapshot)
      const { updateSequence, purgeSequence } = await documents.state()
      return new ViewQuery(parts, documents, versionOf(parts, [updateSequence, purgeSequence]))
    } catch (error) {
      documents?.release()
      parts.index.release()
      throw error
    }
  }

  private constructor(parts: QueryParts, documents: LastingView | undefined, version: readonly unknown[]) {
    super(version)
    this.#parts = parts
    this.#documents = documents
  }

  override get snapshot(): Snapshot {
    return this.#documents?.snapshot ?? this.#parts.view.snapshot
  }

  override release(): void {
    this.#parts.index.release()
    this.#documents?.release()
  }

  protected override begin(): Promise<BegunQuery> {
    return this.#parts.plan.isReduced ? this.#beginReduced() : this.#beginMapped()
  }

  async #beginReduced(): Promise<BegunQuery> {
    const { index, view, plan } = this.#parts
    const rows = new ReducedRows(view, plan)
    const head = this.#sequence()
    const single = await rows.single()
    if (!single) return { head, blocks: () => rows.blocks() }
    index.release()
    const all = new TextRows(single)
    return {
      head,
      all,
      blocks: async function* () {
        yield all
      },
    }
  }

  async #beginMapped(): Promise<BegunQuery> {
    const { index, view, plan } = this.#parts
    const { total, offset, all, blocks } = await new MapRows(view, plan).place()
    const head = { total_rows: total, offset, ...this.#sequence() }
    if (all) index.release()
    // The rest is pages of rows, which may be read from newer snapshots: a stalled client holds none.
    else index.releaseEarly()
    if (plan.includeDocs) return { head, blocks: () => this.#withDocuments(blocks()) }
    return { head, all, blocks }
  }

  #sequence(): RowQueryHead {
    const { view, plan } = this.#parts
    return plan.updateSequence ? { update_seq: view.lastChange } : {}
  }

  async *#withDocuments(blocks: AsyncGenerator<StoredRows>): AsyncGenerator<RowBlock> {
    const { plan, database } = this.#parts
    assert(this.#documents, 'Documents are read from a view of the database.')
    const documents = new RowDocuments(this.#documents, {
      conflicts: plan.conflicts ?? false,
      contents: plan.attachments ? database.attachments.beside(this.#documents.snapshot) : undefined,
      encodingInfo: plan.encodingInfo,
    })
    for await (const rows of blocks) yield* documents.of(rows)
  }
}

function versionOf({ index, view, name, plan, database }: QueryParts, ofDocuments: readonly number[]): unknown[] {
  return [database.uuid, index.signature, name, view.lastChange, view.lastPurge, planText(plan), ofDocuments]
}
