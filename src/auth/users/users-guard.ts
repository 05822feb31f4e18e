/**
 * The access rules of the users database: everybody may register, users may read and change their own document,
 * administrators all. Passwords are hashed before they are stored.
 */
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import type { Databases, DocumentGuard } from '../../database/databases.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import type {
  Commit,
  DocumentAccess,
  Overview,
  ReadingAccess,
  UserContext,
  WriteTarget,
} from '../../database/user-context.ts'
import type { DocumentEdit, EditOutcome } from '../../database/writing/edit.ts'
import { isDesignId, isLocalId } from '../../document/ids.ts'
import { conflict, notFound, RequestError } from '../../document/request-error.ts'
import type { Log } from '../../runtime/log/log.ts'
import { AUTH_SECTION, type AuthSettings, type ChangedSetting } from '../auth-settings.ts'
import { tooManyLogins } from '../passwords/login-work.ts'
import { userPasswordHash, waitingHashes } from '../passwords/passwords.ts'
import { Semaphore } from '../passwords/semaphore.ts'
import { forbidden, notDatabaseAdmin } from '../rights/rights.ts'
import { type BodyEdit, commitAllowed, type Decision, SystemDatabase, textBefore } from '../rights/system-database.ts'
import { membersIn, nameOfUserId, type UserMembers, userIds } from './user-documents.ts'
import { pickMembers, withHashedPassword } from './user-edits.ts'
import { refusalOf, USERS_DESIGN_ID, USERS_VALIDATION } from './user-validation.ts'

class UsersGuard implements DocumentGuard {
  readonly #settings: AuthSettings
  /**
   * Serializes reading the current document and the commit, so that a user cannot get a second document under the other
   * spelling of its id.
   */
  readonly #writers = new Semaphore(1)

  constructor(settings: AuthSettings) {
    this.#settings = settings
  }

  accessOf(database: Database, user: UserContext, isAdmin: boolean): DocumentAccess {
    const writing = new UserWriting(this.#settings, database, user, isAdmin)
    const write = (edits: readonly DocumentEdit[], commit: Commit) => writing.write(edits, commit, this.#writers)
    if (isAdmin) return { reading: undefined, enforced: USERS_VALIDATION, write }
    return {
      reading: new UserReading(this.#settings, user),
      enforced: USERS_VALIDATION,
      largestRequest: this.#settings.largestUserRequest,
      checkTarget: (id, what) => writing.checkTarget(id, what),
      write,
    }
  }
}

/** What users other than administrators see. */
class UserReading implements ReadingAccess {
  readonly #settings: AuthSettings
  readonly #user: UserContext

  constructor(settings: AuthSettings, user: UserContext) {
    this.#settings = settings
    this.#user = user
  }

  readable(document: OpenedDocument): OpenedDocument | undefined {
    const { id, revision, body, deleted } = document.parts
    if (isDesignId(id)) throw forbidden('Only administrators can view design docs in the users database.')
    if (isOwner(this.#user, id)) return document
    const visible = pickMembers(body, new Set(this.#settings.publicFields))
    if (visible.length <= EMPTY_OBJECT.length) return undefined
    return { ...document, parts: { id, revision, body: visible, deleted }, attachments: [] }
  }

  check(overview: Overview): void {
    if (overview === 'changes') throw notDatabaseAdmin()
    if (overview === 'design action') {
      throw forbidden('Only admins can access design document actions for system databases.')
    }
    const { isUserListPublic, publicFields } = this.#settings
    if (!isUserListPublic || publicFields.length === 0) {
      throw forbidden('Only admins can access _all_docs of system databases.')
    }
  }

  /** Only the public members, not even the name. */
  listed({ parts }: OpenedDocument): string {
    if (isDesignId(parts.id)) return 'null'
    return pickMembers(parts.body, new Set(this.#settings.publicFields)).toString()
  }
}

const EMPTY_OBJECT = '{}'

function isOwner({ name }: UserContext, id: string): boolean {
  return name !== null && nameOfUserId(id) === name
}

class UserWriting {
  readonly #settings: AuthSettings
  readonly #database: Database
  readonly #user: UserContext
  readonly #isAdmin: boolean

  constructor(settings: AuthSettings, database: Database, user: UserContext, isAdmin: boolean) {
    this.#settings = settings
    this.#database = database
    this.#user = user
    this.#isAdmin = isAdmin
  }

  /** Refusals for users other than administrators that do not depend on the body. */
  checkTarget(id: string, what: WriteTarget): void {
    if (isLocalId(id) || isDesignId(id)) throw notDatabaseAdmin()
    if (isOwner(this.#user, id)) return
    if (this.#user.name !== null) throw notFound('missing')
    // Everybody may register, but only with a document.
    if (what === 'attachment') throw forbidden('You may only update your own user document.')
  }

  async write(edits: readonly DocumentEdit[], commit: Commit, writers: Semaphore): Promise<EditOutcome[]> {
    if (!this.#isAdmin && edits.some((edit) => this.#isHidden(edit))) throw notFound('missing')
    // Hashing is slow and needs no lock.
    const hashed = await Promise.all(edits.map((edit) => this.#hashed(edit)))
    return writers.run(async () => commitAllowed(edits, await this.#decide(hashed), commit))
  }

  /** Users must not learn about other users. */
  #isHidden(edit: DocumentEdit): boolean {
    return edit.kind !== 'local' && this.#user.name !== null && !isOwner(this.#user, edit.id)
  }

  async #hashed(edit: DocumentEdit): Promise<Decision> {
    if (edit.kind === 'local' || isDesignId(edit.id)) return edit
    const { password } = membersIn(edit.body)
    if (password === undefined || password === null) return edit
    // Concurrent hashes of registrations: so many that logins do not wait for long.
    if (!this.#isAdmin && waitingHashes() >= this.#settings.mostWaitingLogins) return tooManyLogins()
    try {
      const { body, term } = await withHashedPassword(edit.body, password, this.#settings.hashing)
      return edit.kind === 'replicated' ? { ...edit, body } : { ...edit, body, term }
    } catch (error) {
      if (error instanceof RequestError) return error
      throw error
    }
  }

  async #decide(edits: readonly Decision[]): Promise<Decision[]> {
    using view = this.#database.view()
    const decided: Decision[] = []
    const names = new Map<string, string>()
    for (const edit of edits) {
      if (edit instanceof RequestError) decided.push(edit)
      else if (edit.kind === 'local') decided.push(this.#isAdmin ? edit : notDatabaseAdmin())
      else decided.push((await this.#refusal(view, edit, names)) ?? edit)
    }
    return decided
  }

  /** `created` has the ids, by name, that earlier edits of the request give to new users. */
  async #refusal(view: DatabaseView, edit: BodyEdit, created: Map<string, string>): Promise<RequestError | undefined> {
    if (isDesignId(edit.id)) return this.#isAdmin ? undefined : notDatabaseAdmin()
    const found = await textBefore(view, edit)
    if (found === 'conflict') return conflict()
    const before = found && membersIn(found)
    const { id, deleted } = edit
    const after = membersIn(edit.body)
    const broken = refusalOf({ id, deleted, after, before, user: this.#user, isAdmin: this.#isAdmin })
    if (broken) return broken
    if (deleted) return undefined
    if (!this.#isAdmin && isTooSlow(after, before, this.#settings.foreignIterations)) {
      return forbidden('Iteration count is too high for this server')
    }
    return before ? undefined : this.#secondSpelling(view, edit, created)
  }

  /** A user has one document. Both spellings may only come in by replication, from where both were. */
  async #secondSpelling(
    view: DatabaseView,
    { id, kind }: BodyEdit,
    created: Map<string, string>,
  ): Promise<RequestError | undefined> {
    if (this.#isAdmin && kind === 'replicated') return undefined
    const name = nameOfUserId(id) ?? ''
    const other = userIds(name).find((each) => each !== id) ?? ''
    const record = await view.record(other)
    if ((record && !record.deleted) || created.get(name) === other) return conflict()
    created.set(name, id)
    return undefined
  }
}

/** A changed hash with too many iterations for this server. */
function isTooSlow(after: UserMembers, before: UserMembers | undefined, most: number): boolean {
  const hash = userPasswordHash(after)
  if (hash?.scheme !== 'pbkdf2' || hash.iterations <= most) return false
  return after.iterations !== before?.iterations
}

export function usersDatabase(
  databases: Databases,
  settings: AuthSettings,
  log: Log,
  isMadeHere = true,
): SystemDatabase {
  return new SystemDatabase(databases, settings, log, {
    failure: 'The users database cannot be opened: only administrators can log in.',
    isNamedBy: isUsersName,
    name: () => settings.usersDatabase,
    guard: new UsersGuard(settings),
    isMadeHere,
    design: { id: USERS_DESIGN_ID, validation: USERS_VALIDATION },
  })
}

/** Whether a change of settings may mean another users database. */
export function isUsersName({ section, key }: ChangedSetting): boolean {
  return section === AUTH_SECTION && key === 'authentication_db'
}
