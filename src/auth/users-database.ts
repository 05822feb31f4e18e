/**
 * The database that holds the users: there from the start, back at once when somebody deletes it, and under its guard
 * for everybody but the server itself. Which database it is can change while the server runs.
 */
import type { Database } from '../database/database.ts'
import type { Databases } from '../database/databases.ts'
import type { NewRevisionEdit } from '../database/edit.ts'
import { openDocument } from '../database/open-document.ts'
import { RequestError } from '../document/request-error.ts'
import { scanDocument } from '../encoding/json-text.ts'
import type { Log } from '../runtime/log.ts'
import { AUTH_SECTION, type AuthSettings } from './auth-settings.ts'
import { USERS_DESIGN_ID, USERS_VALIDATION } from './users-design.ts'
import { UsersGuard } from './users-guard.ts'

export class UsersDatabase {
  readonly #databases: Databases
  readonly #settings: AuthSettings
  readonly #log: Log
  readonly #guard: UsersGuard
  readonly #ends: (() => void)[] = []
  /** The name whose documents the guard guards. */
  #name: string | undefined
  readonly #preparing = new Map<string, Promise<Database>>()

  constructor(databases: Databases, settings: AuthSettings, log: Log) {
    this.#databases = databases
    this.#settings = settings
    this.#log = log
    this.#guard = new UsersGuard(settings)
  }

  /** Makes sure that the database is there, now and from now on. */
  async start(): Promise<void> {
    await this.#followSettings()
    this.#ends.push(
      this.#settings.onChange(async ({ section, key }) => {
        if (section === AUTH_SECTION && key === 'authentication_db') await this.#followSettings()
      }),
      this.#databases.onDeleted(async (name) => {
        if (name === this.#name) await this.#restored(name)
      }),
    )
  }

  stop(): void {
    for (const end of this.#ends.splice(0)) end()
  }

  /** As the server uses it, without the guard. */
  async get(): Promise<Database> {
    const name = this.#settings.usersDatabase
    try {
      return await this.#databases.get(name)
    } catch (error) {
      // Deleted, and not yet back.
      if (error instanceof RequestError && error.status === 404) return this.#prepared(name)
      throw error
    }
  }

  async #followSettings(): Promise<void> {
    const name = this.#settings.usersDatabase
    if (this.#name !== undefined && this.#name !== name) this.#databases.setGuard(this.#name, undefined)
    this.#name = name
    // Before anything is in it: nobody may ever see it without its guard.
    this.#databases.setGuard(name, this.#guard)
    await this.#restored(name)
  }

  async #restored(name: string): Promise<void> {
    try {
      await this.#prepared(name)
    } catch (error) {
      this.#log.error('The users database cannot be opened: nobody but administrators can log in.', {
        database: name,
        error: String(error),
      })
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
    await installDesign(database)
    return database
  }
}

/** Writes the design document, or puts its function right. */
async function installDesign(database: Database): Promise<void> {
  using view = database.view()
  const current = await openDocument(view, USERS_DESIGN_ID).catch((error: unknown) => {
    if (error instanceof RequestError && error.status === 404) return undefined
    throw error
  })
  const members: Record<string, unknown> = current ? JSON.parse(current.parts.body.toString()) : {}
  if (members.validate_doc_update === USERS_VALIDATION) return
  const wanted = { ...members, language: 'javascript', validate_doc_update: USERS_VALIDATION }
  const { body, term } = scanDocument(Buffer.from(JSON.stringify(wanted)))
  const edit: NewRevisionEdit = {
    kind: 'interactive',
    id: USERS_DESIGN_ID,
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
