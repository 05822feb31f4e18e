/**
 * A system database: created at the start, recreated when it is deleted, and accessed through its guard by everybody
 * but the server itself. Which database it is can change while the server runs.
 */
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import type { Databases, DocumentGuard } from '../../database/databases.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import { openDocument } from '../../database/reading/open-document.ts'
import type { Commit } from '../../database/user-context.ts'
import {
  type DocumentEdit,
  type EditOutcome,
  type LocalEdit,
  type NewRevisionEdit,
  refuseTogether,
} from '../../database/writing/edit.ts'
import { notFound, RequestError } from '../../document/request-error.ts'
import type { RevisionNode } from '../../document/tree/branch.ts'
import { scanDocument } from '../../encoding/json/json-text.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { AuthSettings, ChangedSetting } from '../auth-settings.ts'

/** The definition of a system database. */
export interface SystemDatabaseRules {
  /** What the log says when it cannot be opened. */
  readonly failure: string
  /** Whether a change of settings may mean another name. */
  isNamedBy(change: ChangedSetting): boolean
  /** The current name; undefined if another system database has it. */
  name(): string | undefined
  readonly guard: DocumentGuard
  /** False if another node creates the database. */
  readonly isMadeHere?: boolean
  /** Its design document, whose validation function states what the guard enforces. */
  readonly design: { readonly id: string; readonly validation: string }
}

export class SystemDatabase {
  readonly #databases: Databases
  readonly #settings: AuthSettings
  readonly #log: Log
  readonly #rules: SystemDatabaseRules
  readonly #ends: (() => void)[] = []
  /** The name whose documents the guard guards. */
  #name: string | undefined
  readonly #preparing = new Map<string, Promise<Database>>()

  constructor(databases: Databases, settings: AuthSettings, log: Log, rules: SystemDatabaseRules) {
    this.#databases = databases
    this.#settings = settings
    this.#log = log
    this.#rules = rules
  }

  /** Creates the database if it is missing, now and from now on. */
  async start(): Promise<void> {
    await this.#followSettings()
    this.#ends.push(
      this.#settings.onChange(async (change) => {
        if (this.#rules.isNamedBy(change)) await this.#followSettings()
      }),
      this.#databases.afterDeletion(async (name) => {
        if (name === this.#name) await this.#restored(name)
      }),
    )
  }

  stop(): void {
    for (const end of this.#ends.splice(0)) end()
  }

  /** For the server itself, without the guard. */
  async get(): Promise<Database> {
    const name = this.#rules.name()
    if (name === undefined) throw notFound('no_db_file')
    try {
      return await this.#databases.get(name)
    } catch (error) {
      // Deleted and not yet recreated.
      const isMissing = error instanceof RequestError && error.kind === 'not found'
      if (isMissing && this.#rules.isMadeHere !== false) return this.#prepared(name)
      throw error
    }
  }

  async #followSettings(): Promise<void> {
    const name = this.#rules.name()
    if (this.#name !== undefined && this.#name !== name) this.#detach(this.#name)
    this.#name = name
    if (name === undefined) {
      this.#log.error(this.#rules.failure, { reason: 'Its name is that of another system database.' })
      return
    }
    // Before it has any document: nobody may access it without its guard.
    this.#databases.setGuard(name, this.#rules.guard)
    await this.#restored(name)
  }

  /** The name may now belong to another system database, with a guard of its own. */
  #detach(name: string): void {
    if (this.#databases.guardOf(name) === this.#rules.guard) this.#databases.setGuard(name, undefined)
  }

  async #restored(name: string): Promise<void> {
    if (this.#rules.isMadeHere === false) return
    try {
      await this.#prepared(name)
    } catch (error) {
      this.#log.error(this.#rules.failure, { database: name, error: String(error) })
    }
  }

  /** Concurrent calls share the same preparation. */
  #prepared(name: string): Promise<Database> {
    const known = this.#preparing.get(name)
    if (known) return known
    const preparing = this.#prepare(name).finally(() => this.#preparing.delete(name))
    this.#preparing.set(name, preparing)
    return preparing
  }

  async #prepare(name: string): Promise<Database> {
    try {
      await this.#databases.create(name)
    } catch (error) {
      // There already.
      if (!(error instanceof RequestError && error.kind === 'precondition failed')) throw error
    }
    const database = await this.#databases.get(name)
    await installDesign(database, this.#rules.design)
    return database
  }
}

/** Writes the design document, or restores its function. */
async function installDesign(database: Database, { id, validation }: SystemDatabaseRules['design']): Promise<void> {
  const current = await currentDesign(database, id)
  const members: Record<string, unknown> = current ? JSON.parse(current.parts.body.toString()) : {}
  if (members.validate_doc_update === validation) return
  const wanted = { ...members, language: 'javascript', validate_doc_update: validation }
  const { body, term } = scanDocument(Buffer.from(JSON.stringify(wanted)))
  const edit: NewRevisionEdit = {
    kind: 'interactive',
    id,
    parent: current?.revision,
    deleted: false,
    body,
    term,
    attachments: [],
  }
  const [outcome] = await database.write([edit])
  // A conflict means a concurrent change; the next start checks again.
  if (outcome?.outcome === 'refused' && outcome.error.kind !== 'conflict') throw outcome.error
}

/** An edit of a document that has revisions. */
export type BodyEdit = Exclude<DocumentEdit, LocalEdit>

/** The decision of a guard on an edit: the edit to be written, or the refusal. */
export type Decision = DocumentEdit | RequestError

/** Commits what may be written. The outcomes are those of all decisions, in their order. */
export async function commitAllowed(
  edits: readonly DocumentEdit[],
  decided: readonly Decision[],
  commit: Commit,
): Promise<EditOutcome[]> {
  refuseTogether(
    edits,
    decided.map((each) => (each instanceof RequestError ? each : undefined)),
  )
  const allowed = decided.filter((each): each is DocumentEdit => !(each instanceof RequestError))
  const written = (await commit(allowed)).values()
  return decided.map((each) => (each instanceof RequestError ? { outcome: 'refused', error: each } : nextOf(written)))
}

/**
 * The text of the document that an edit changes: the parent revision, or else the current winner. So a new branch of an
 * existing document is not treated as a new document, and an older revision grants no rights.
 */
export async function textBefore(view: DatabaseView, edit: BodyEdit): Promise<Buffer | 'conflict' | undefined> {
  const record = await view.record(edit.id)
  if (!record) return undefined
  const current = record.deleted ? undefined : record.body
  let followed: RevisionNode | undefined
  if (edit.kind === 'interactive') {
    if (edit.parent === undefined && current !== undefined) return 'conflict'
    const tree = await view.tree(edit.id, record)
    followed = edit.parent && tree.find(edit.parent)
  }
  const number = followed?.status === 'live' ? followed.body : current
  return number === undefined ? undefined : (await view.body(number)).text
}

function nextOf(outcomes: Iterator<EditOutcome>): EditOutcome {
  const { value, done } = outcomes.next()
  if (done) throw new Error('A write has no outcome.')
  return value
}

/** Its state is not held while the document is written: on PostgreSQL it takes a connection. */
async function currentDesign(database: Database, id: string): Promise<OpenedDocument | undefined> {
  using view = database.view()
  try {
    return await openDocument(view, id)
  } catch (error) {
    if (error instanceof RequestError && error.kind === 'not found') return undefined
    throw error
  }
}
