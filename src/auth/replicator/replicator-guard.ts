/**
 * The access rules of the replicator database: a document belongs to the user who wrote it. Others see it without
 * passwords; only administrators may list all documents.
 */
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import type { Databases, DocumentGuard } from '../../database/databases.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import type { Commit, DocumentAccess, Overview, ReadingAccess, UserContext } from '../../database/user-context.ts'
import type { DocumentEdit, EditOutcome, LocalEdit } from '../../database/writing/edit.ts'
import { isDesignId, isLocalId } from '../../document/ids.ts'
import { conflict, RequestError } from '../../document/request-error.ts'
import { scanDocument } from '../../encoding/json/json-text.ts'
import { spliceObject } from '../../encoding/json/json-text-splice.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { Log } from '../../runtime/log/log.ts'
import { type AuthSettings, type ChangedSetting, REPLICATOR_SECTION } from '../auth-settings.ts'
import { Semaphore } from '../passwords/semaphore.ts'
import { forbidden, notDatabaseAdmin } from '../rights/rights.ts'
import { type BodyEdit, commitAllowed, type Decision, SystemDatabase, textBefore } from '../rights/system-database.ts'
import { memberTexts } from '../users/user-edits.ts'
import { isUsersName } from '../users/users-guard.ts'
import { addressWithoutCredentials } from './address-credentials.ts'
import {
  isReplicator,
  REPLICATOR_DESIGN_ID,
  REPLICATOR_VALIDATION,
  type ReplicationMembers,
  replicationRefusal,
} from './replication-validation.ts'

class ReplicatorGuard implements DocumentGuard {
  /** Serializes reading the current document and the commit. */
  readonly #writers = new Semaphore(1)

  accessOf(database: Database, user: UserContext, isAdmin: boolean): DocumentAccess {
    const writing = new ReplicatorWriting(database, user, isAdmin)
    return {
      reading: isAdmin ? undefined : new ReplicatorReading(user),
      enforced: REPLICATOR_VALIDATION,
      checkTarget: (id) => {
        if (!isAdmin && (isDesignId(id) || isLocalId(id))) throw notDatabaseAdmin()
      },
      write: (edits, commit) => this.#writers.run(() => writing.write(edits, commit)),
    }
  }
}

/** What users other than administrators see. */
class ReplicatorReading implements ReadingAccess {
  readonly #user: UserContext

  constructor(user: UserContext) {
    this.#user = user
  }

  readable(document: OpenedDocument): OpenedDocument {
    const { id, body } = document.parts
    if (isDesignId(id) || isOwn(this.#user, membersIn(body).owner)) return document
    return { ...document, parts: { ...document.parts, body: withoutCredentials(body) } }
  }

  check(overview: Overview): void {
    if (overview === 'list') throw forbidden('Only admins can access _all_docs of system databases.')
    if (overview === 'design action') {
      throw forbidden('Only admins can access design document actions for system databases.')
    }
  }

  listed(document: OpenedDocument): string {
    return this.readable(document).parts.body.toString()
  }
}

class ReplicatorWriting {
  readonly #database: Database
  readonly #user: UserContext
  readonly #isAdmin: boolean

  constructor(database: Database, user: UserContext, isAdmin: boolean) {
    this.#database = database
    this.#user = user
    this.#isAdmin = isAdmin
  }

  async write(edits: readonly DocumentEdit[], commit: Commit): Promise<EditOutcome[]> {
    return commitAllowed(edits, await this.#decideAll(edits), commit)
  }

  async #decideAll(edits: readonly DocumentEdit[]): Promise<Decision[]> {
    using view = this.#database.view()
    const decided: Decision[] = []
    for (const edit of edits) {
      decided.push(edit.kind === 'local' ? this.#decideLocal(edit) : await this.#decide(view, edit))
    }
    return decided
  }

  #decideLocal(edit: LocalEdit): Decision {
    return this.#isAdmin || isReplicator(this.#user) ? edit : notDatabaseAdmin()
  }

  async #decide(view: DatabaseView, edit: BodyEdit): Promise<Decision> {
    if (isDesignId(edit.id)) return this.#isAdmin ? edit : notDatabaseAdmin()
    const found = await textBefore(view, edit)
    if (found === 'conflict') return conflict()
    const before = found && membersIn(found)
    const owned = edit.deleted || isReplicator(this.#user) ? edit : this.#owned(edit, before)
    if (owned instanceof RequestError) return owned
    const after = membersIn(owned.body)
    const { deleted } = edit
    return replicationRefusal({ deleted, after, before, user: this.#user, isAdmin: this.#isAdmin }) ?? owned
  }

  /** The edit with its owner: the writer, unless an administrator changes another user's document. */
  #owned(edit: BodyEdit, before: ReplicationMembers | undefined): BodyEdit | RequestError {
    const { name } = this.#user
    const { owner } = membersIn(edit.body)
    const isForeign = (each: unknown) => each !== undefined && !isOwn(this.#user, each)
    if (!this.#isAdmin && (isForeign(owner) || isForeign(before?.owner))) {
      return forbidden("Can't update replication documents from other users.")
    }
    return owner === undefined || (owner === null && name !== null) ? withOwner(edit, name) : edit
  }
}

function withOwner(edit: BodyEdit, owner: string | null): BodyEdit {
  const others = memberTexts(edit.body, (name) => name !== 'owner')
  const { body, term } = scanDocument(spliceObject([...others, `"owner":${JSON.stringify(owner)}`]))
  return edit.kind === 'replicated' ? { ...edit, body } : { ...edit, body, term }
}

/** A document without an owner belongs to nobody, not to every anonymous user. */
function isOwn({ name }: UserContext, owner: unknown): boolean {
  return name !== null && owner === name
}

function membersIn(body: Buffer): ReplicationMembers {
  return JSON.parse(body.toString())
}

export function replicatorDatabase(
  databases: Databases,
  settings: AuthSettings,
  log: Log,
  isMadeHere = true,
): SystemDatabase {
  return new SystemDatabase(databases, settings, log, {
    failure: 'The replicator database cannot be opened.',
    isNamedBy: (change) => isReplicatorName(change) || isUsersName(change),
    // The users database must have no other guard than its own.
    name: () => (settings.replicatorDatabase === settings.usersDatabase ? undefined : settings.replicatorDatabase),
    guard: new ReplicatorGuard(),
    isMadeHere,
    design: { id: REPLICATOR_DESIGN_ID, validation: REPLICATOR_VALIDATION },
  })
}

function isReplicatorName({ section, key }: ChangedSetting): boolean {
  return section === REPLICATOR_SECTION && key === 'db'
}

/** Members of an endpoint that hold credentials. */
const SECRET_MEMBERS = new Set(['auth', 'oauth'])
const SECRET_HEADERS = /auth|cookie|key|password|secret|signature|token/i

/** Members that hold addresses. */
const ENDPOINTS = ['source', 'target', 'proxy', 'source_proxy', 'target_proxy']

/** The text of a replication document without its passwords. */
function withoutCredentials(body: Buffer): Buffer {
  const members: Record<string, unknown> = JSON.parse(body.toString())
  const endpoints = ENDPOINTS.filter((name) => Object.hasOwn(members, name))
  const rest = memberTexts(body, (name) => !endpoints.includes(name))
  const shown = endpoints.map((name) => `"${name}":${JSON.stringify(endpointWithout(members[name]))}`)
  return spliceObject([...shown, ...rest])
}

function endpointWithout(endpoint: unknown): unknown {
  if (typeof endpoint === 'string') return addressWithoutCredentials(endpoint)
  if (!isObject(endpoint)) return endpoint
  const kept = Object.entries(endpoint).filter(([name]) => !SECRET_MEMBERS.has(name))
  return Object.fromEntries(kept.map(([name, value]) => [name, memberWithout(name, value)]))
}

function memberWithout(name: string, value: unknown): unknown {
  if (name === 'url' && typeof value === 'string') return addressWithoutCredentials(value)
  if (name !== 'headers' || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).filter(([header]) => !SECRET_HEADERS.test(header)))
}
