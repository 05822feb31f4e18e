/**
 * A database that belongs to the server: there from the start, back at once when somebody deletes it, and under its guard
 * for everybody but the server itself. Which database it is can change while the server runs.
 */
import type { Database } from '../../database/database.ts'
import type { Databases, DocumentGuard } from '../../database/databases.ts'
import { openDocument } from '../../database/reading/open-document.ts'
import type { NewRevisionEdit } from '../../database/writing/edit.ts'
import { notFound, RequestError } from '../../document/request-error.ts'
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
      if (error instanceof RequestError && error.status === 404) return this.#prepared(name)
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
      if (!(error instanceof RequestError && error.status === 412)) throw error
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
    if (error instanceof RequestError && error.status === 404) return undefined
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
  if (outcome?.outcome === 'refused' && outcome.error.status !== 409) throw outcome.error
}
