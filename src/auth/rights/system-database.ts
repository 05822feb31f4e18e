/**
 * A database that belongs to the server: there from the start, back at once when somebody deletes it, and under its guard
 * for everybody but the server itself. Which database it is can change while the server runs.
 */
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import type { Databases, DocumentGuard } from '../../database/databases.ts'
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

/** What makes one of them that one. */
export interface SystemDatabaseRules {
  /** What the log says when it cannot be opened. */
  readonly failure: string
  /** Whether a change of settings may mean another name. */
  isNamedBy(change: ChangedSetting): boolean
  /** The name that counts now; undefined where it belongs to another one of them. */
  name(): string | undefined
  readonly guard: DocumentGuard
  /** False where another node sees to it that the database is there. */
  readonly isMadeHere?: boolean
  /** Its own design document, and the function there that says what the guard enforces. */
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

  /** Makes sure that the database is there, now and from now on. */
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

  /** As the server uses it, without the guard. */
  async get(): Promise<Database> {
    const name = this.#rules.name()
    if (name === undefined) throw notFound('no_db_file')
    try {
      return await this.#databases.get(name)
    } catch (error) {
      // Deleted, and not yet back.
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
      this.#log.error(this.#rules.failure, { reason: 'Its name is that of another database of the server.' })
      return
    }
    // Before anything is in it: nobody may ever see it without its guard.
    this.#databases.setGuard(name, this.#rules.guard)
    await this.#restored(name)
  }

  /** By now the name may be that of another one of them, under a guard of its own. */
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

  /** Who asks while it is being prepared waits for the same. */
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

/** Writes the design document, or puts its function right. */
async function installDesign(database: Database, { id, validation }: SystemDatabaseRules['design']): Promise<void> {
  using view = database.view()
  const current = await openDocument(view, id).catch((error: unknown) => {
    if (error instanceof RequestError && error.kind === 'not found') return undefined
    throw error
  })
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
  // In a conflict somebody else was faster; the next start looks again.
  if (outcome?.outcome === 'refused' && outcome.error.kind !== 'conflict') throw outcome.error
}

/** An edit of a document that has revisions. */
export type BodyEdit = Exclude<DocumentEdit, LocalEdit>

/** What a guard makes of an edit: the edit as it is to be written, or why it is not. */
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
 * The text of the document that an edit changes: the revision it is to follow, or else the one that counts now. So nobody
 * can put a branch beside a document that is there and call it new, or bring back what an older revision allowed.
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
