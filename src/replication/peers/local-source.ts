/**
 * A local database as the source: reads its changes directly, and opens many documents at a time in their stored form.
 */

import type { LineFrame } from '../../database/changes/change-block-writer.ts'
import { type ChangeFilter, type DocumentFilter, documentIdFilter } from '../../database/changes/change-filter.ts'
import { ChangesReader } from '../../database/changes/changes-reader.ts'
import { readLeafChanges } from '../../database/changes/stored-changes.ts'
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { informationMembers } from '../../database/information-members.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import { wantedAttachments } from '../../database/reading/document-text.ts'
import { openRevisions } from '../../database/reading/open-document.ts'
import { openKept } from '../../database/reading/open-kept.ts'
import { type OnlyDocument, openMany, openOnly } from '../../database/reading/open-many.ts'
import { openRevisionPortions } from '../../database/reading/revision-portions.ts'
import type { UserContext } from '../../database/user-context.ts'
import { parseRevision, type RevisionId } from '../../document/ids.ts'
import { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { Functions } from '../../functions/functions.ts'
import { documentTest } from '../../scan/large-match.ts'
import { replicationFailure } from '../replication-error.ts'
import type { ReplicationFilter } from '../replication-request.ts'
import type { LocalAddress } from './address.ts'
import { LocalPeer, type LocalServices, type OpenedLocal } from './local-peer.ts'
import { OpenedTransfer } from './opened-transfer.ts'
import type { ChangeBatch, ChangedDocument, FeedOptions, SourcePeer, WantedDocument } from './peer.ts'
import type { Sequence } from './sequence.ts'

type FunctionFilter = Extract<ReplicationFilter, { kind: 'function' }>

export class LocalSource extends LocalPeer implements SourcePeer {
  readonly #user: UserContext
  readonly #functions: Functions
  readonly #signal: AbortSignal

  constructor(
    { shown }: LocalAddress,
    { database, reopen }: OpenedLocal,
    user: UserContext,
    { functions }: LocalServices,
    signal: AbortSignal,
  ) {
    super(shown, database, reopen)
    this.#user = user
    this.#functions = functions
    this.#signal = signal
  }

  async *changes(options: FeedOptions): AsyncGenerator<ChangeBatch> {
    const { since, continuous, filter, batchSize } = options
    this.database.reading?.check('changes')
    const news = new Signal(this.#signal)
    // Before the first read: every later commit is then noticed.
    const unsubscribe = this.database.changes.subscribe(() => news.give())
    try {
      let cursor = ownSequence(since)
      const isPlain = !filter && !this.database.reading
      const nextPage = isPlain ? this.#storedPages(options) : this.#filteredPages(cursor, options)
      // Read and not yet part of a batch.
      let waiting: readonly LocalChange[] = []
      for (;;) {
        news.take()
        const { changes, looked, isEnd } = await this.#read(() => nextPage(cursor))
        waiting = waiting.length > 0 ? [...waiting, ...changes] : changes
        // Pages end where they like, and full batches share the cost of a commit among the most documents.
        while (waiting.length > batchSize) {
          const some = waiting.slice(0, batchSize)
          waiting = waiting.slice(batchSize)
          yield { changes: some, lastSequence: some.at(-1)!.sequence }
        }
        // Filters may be slow: what passed does not wait for more, and what did not is progress too.
        const isBatch = waiting.length === batchSize || isEnd || !isPlain
        if (waiting.length === 0 ? looked > cursor : isBatch) {
          yield { changes: waiting, lastSequence: looked }
          waiting = []
        }
        cursor = looked
        if (!isEnd) continue
        if (!continuous) return
        await news.given()
        this.checkPresence()
        await this.checkRights()
      }
    } finally {
      unsubscribe()
    }
  }

  #storedPages({ leaves }: FeedOptions): (cursor: number) => Promise<LocalPage> {
    return async (cursor) => {
      using view = this.database.view()
      return await readLeafChanges(view, cursor, leaves)
    }
  }

  /** Through the feed, which knows how to filter, and what the user may see. */
  #filteredPages(since: number, { leaves, filter }: FeedOptions): () => Promise<LocalPage> {
    let reader: ChangesReader | undefined
    return async () => {
      reader ??= new ChangesReader(this.database, {
        since,
        descending: false,
        limit: Number.POSITIVE_INFINITY,
        leaves,
        documents: undefined,
        filter: filter && (await this.#filter(filter)),
        frame: LIST_FRAME,
        sharedAs: undefined,
      })
      const { text, isEnd } = await reader.next()
      return { changes: Buffer.isBuffer(text) ? changesIn(text) : [], looked: reader.cursor, isEnd }
    }
  }

  async filterSource(filter: FunctionFilter): Promise<string> {
    const source = sourceIn(await this.#design(filter), filter)
    if (source === undefined) throw noFilter(this.shown, filter)
    return source
  }

  async *read(wanted: readonly WantedDocument[]): AsyncGenerator<OpenedTransfer[]> {
    const { database } = this
    for (let first = 0; first < wanted.length; first += DOCUMENTS_A_READ) {
      const some = wanted.slice(first, first + DOCUMENTS_A_READ)
      let done = 0
      while (done < some.length) {
        const portion = await this.#read(() => openPortion(database, some.slice(done)))
        if (portion.isTooLarge) yield* this.#inPortions(some[done]!)
        done += portion.documents
        const plain = portion.opened.filter(({ attachments }) => attachments.length === 0)
        yield plain.map((document) => new OpenedTransfer(document, database.attachments))
        for (const document of portion.opened) {
          if (document.attachments.length > 0) yield* this.#withContents(document, some)
        }
      }
    }
  }

  async *stream(wanted: WantedDocument): AsyncGenerator<OpenedTransfer> {
    for await (const some of this.read([wanted])) yield* some
  }

  /** The revisions of one document that do not fit into memory together. */
  async *#inPortions(wanted: WantedDocument): AsyncGenerator<OpenedTransfer[]> {
    const { database } = this
    const revisions = wanted.revisions.map(parseRevision)
    const options = { revisions: true, latest: true, known: NONE, contents: false }
    using found = await this.#read(() => openRevisionPortions(database, wanted.id, revisions, options))
    for await (const portion of found.portions()) {
      for (const each of portion) {
        if (!each.found) continue
        if (each.document.attachments.length > 0) yield* this.#withContents(each.document, [wanted])
        else yield [new OpenedTransfer(each.document, database.attachments)]
      }
    }
  }

  /** Attachments are protected from compaction until the document was written. */
  async *#withContents(document: OpenedDocument, wanted: readonly WantedDocument[]): AsyncGenerator<OpenedTransfer[]> {
    const { database } = this
    const { id } = document.parts
    const known = knownTo(wanted, id)
    const options = { revisions: true, known }
    const { opened, release } = await openKept(
      database,
      async (view) => {
        const [found] = await openRevisions(view, id, [document.revision], options)
        return found?.found ? found.document : undefined
      },
      (each) => (each ? wantedAttachments(each) : []),
    )
    if (opened) yield [new OpenedTransfer(opened, database.attachments, release)]
    else release()
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    this.#signal.throwIfAborted()
    try {
      return await read()
    } catch (error) {
      this.checkPresence()
      throw error
    }
  }

  async #filter(filter: ReplicationFilter): Promise<ChangeFilter> {
    if (filter.kind === 'documents') return documentIdFilter(filter.ids)
    if (filter.kind === 'function') return this.#functionFilter(filter)
    return { by: 'text', passes: documentTest(filter.selector, { signal: this.#signal }) }
  }

  async #functionFilter(filter: FunctionFilter): Promise<DocumentFilter> {
    const design = await this.#design(filter)
    if (sourceIn(design, filter) === undefined) throw noFilter(this.shown, filter)
    const request = JSON.stringify(await this.#filterRequest(filter))
    const run = { owner: this.database.name, signal: this.#signal }
    return {
      by: 'document',
      passes: (documents) => this.#functions.filter(design.program, filter.name, documents, request, run),
    }
  }

  /** There is no HTTP request: filter functions get the request object that CouchDB passes. */
  async #filterRequest({ design, name: filterName, parameters }: FunctionFilter): Promise<object> {
    const { name, roles } = this.#user
    const db = this.database.name
    return {
      info: await informationMembers(this.database),
      id: null,
      method: 'GET',
      path: [db, '_changes'],
      query: { filter: `${design}/${filterName}`, ...parameters },
      headers: [],
      body: [],
      peer: 'replicator',
      form: [],
      cookie: [],
      userCtx: { db, name, roles },
    }
  }

  async #design({ design }: FunctionFilter): Promise<DesignDocument> {
    const id = `_design/${design}`
    try {
      return await this.database.currentDesign(id)
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      const told = `Couldn't open document \`${id}\` from source database \`${this.shown}\`: ${error.reason}`
      throw replicationFailure(told)
    }
  }
}

/** Lines that form a JSON list when brackets are added. */
const LIST_FRAME: LineFrame = { before: Buffer.alloc(0), after: () => CLOSING_BRACE, between: Buffer.from(',') }
const CLOSING_BRACE = Buffer.from('}')

/** Sequences of other servers mean nothing here: the feed begins at the start. */
function ownSequence(since: Sequence): number {
  if (typeof since === 'number') return Number.isSafeInteger(since) ? Math.max(0, since) : 0
  return typeof since === 'string' && /^\d{1,15}$/.test(since) ? Number(since) : 0
}

interface LocalChange extends ChangedDocument {
  readonly sequence: number
}

interface LocalPage {
  readonly changes: readonly LocalChange[]
  /** The last sequence that was read. */
  readonly looked: number
  readonly isEnd: boolean
}

function changesIn(lines: Buffer): LocalChange[] {
  const rows: { seq: number; id: string; changes: { rev: string }[] }[] = JSON.parse(`[${lines.toString()}]`)
  return rows.map(({ seq, id, changes }) => ({ sequence: seq, id, revisions: changes.map(({ rev }) => rev) }))
}

/** Documents whose records are read together. */
const DOCUMENTS_A_READ = 500
interface Portion {
  readonly opened: readonly OpenedDocument[]
  /** How many of the wanted documents it is about. */
  readonly documents: number
  /** Whether it is about one document whose revisions do not fit into memory together, and none is opened. */
  readonly isTooLarge?: boolean
}

/** The first of the wanted documents, as many as may be held together. All of one state. */
async function openPortion(database: Database, wanted: readonly WantedDocument[]): Promise<Portion> {
  using view = database.view()
  if (view.reading) return await openGuarded(view, wanted)
  const opened = await openOnly(view, onlyIn(wanted))
  if (opened) return { opened, documents: opened.length }
  const asked = wanted.map(({ id, revisions }) => ({ id, revisions: revisions.map(parseRevision) }))
  const found = await openMany(view, asked, { latest: true, revisions: true })
  const isTooLarge = found.some((each) => each.isTooLarge)
  return { opened: found.flatMap(({ documents }) => documents), documents: found.length, isTooLarge }
}

/** The first of them, as far as they have one revision each. */
function onlyIn(wanted: readonly WantedDocument[]): OnlyDocument[] {
  const found: OnlyDocument[] = []
  for (const { id, only } of wanted) {
    if (!only) break
    found.push({ id, only })
  }
  return found
}

const NONE: readonly RevisionId[] = []

/** One at a time: access is checked for each. */
async function openGuarded(view: DatabaseView, [first]: readonly WantedDocument[]): Promise<Portion> {
  if (!first) return { opened: [], documents: 0 }
  const found = await openRevisions(view, first.id, first.revisions.map(parseRevision), {
    revisions: true,
    latest: true,
  })
  return { opened: found.flatMap((each) => (each.found ? [each.document] : [])), documents: 1 }
}

function knownTo(wanted: readonly WantedDocument[], id: string): readonly RevisionId[] {
  return wanted.find((each) => each.id === id)?.known.map(parseRevision) ?? NONE
}

function sourceIn({ members }: DesignDocument, { name }: FunctionFilter): string | undefined {
  const { filters } = members
  const source = isObject(filters) && Object.hasOwn(filters, name) ? filters[name] : undefined
  return typeof source === 'string' ? source : undefined
}

function noFilter(shown: string, { design, name }: FunctionFilter): RequestError {
  return replicationFailure(
    `Couldn't open document \`_design/${design}\` from source database \`${shown}\`: it has no filter \`${name}\``,
  )
}

/** A repeating event; several occurrences before the next wait count once. */
class Signal {
  readonly #abort: AbortSignal
  #isGiven = false
  #wake: (() => void) | undefined

  constructor(abort: AbortSignal) {
    this.#abort = abort
    abort.addEventListener('abort', () => this.give(), { once: true })
  }

  give(): void {
    this.#isGiven = true
    this.#wake?.()
  }

  take(): void {
    this.#isGiven = false
  }

  /** Rejects when the wait is aborted. */
  async given(): Promise<void> {
    if (!this.#isGiven) await new Promise<void>((resolve) => (this.#wake = resolve))
    this.#wake = undefined
    this.#abort.throwIfAborted()
  }
}
