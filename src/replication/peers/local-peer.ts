/** A database of this server as a peer, used with the rights of the user for whom the replication runs. No HTTP. */
import type { Auth } from '../../auth/auth.ts'
import { isServerAdmin } from '../../auth/rights/rights.ts'
import type { Configuration } from '../../config/configuration.ts'
import type { Database } from '../../database/database.ts'
import type { DatabaseOptions } from '../../database/database-identity.ts'
import type { Databases } from '../../database/databases.ts'
import { localRevision } from '../../database/layout/document-record.ts'
import type { UserContext } from '../../database/user-context.ts'
import { parseRevision } from '../../document/ids.ts'
import { conflict, RequestError } from '../../document/request-error.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { Functions } from '../../functions/functions.ts'
import type { LeaseProof } from '../../storage/leases/work-leases.ts'
import { databaseNotFound, unauthorizedPeer } from '../replication-error.ts'
import type { LocalAddress } from './address.ts'
import type { Peer, PeerInformation, StoredLog } from './peer.ts'

export interface LocalServices {
  readonly auth: Auth
  readonly databases: Databases
  readonly functions: Functions
  readonly configuration: Configuration
  /** Of the replication, where one server of all runs it. */
  readonly lease?: LeaseProof | undefined
}

/** A database as a user may use it. */
export interface OpenedLocal {
  readonly database: Database
  /** The same as the user may use it now. */
  reopen(): Promise<Database>
}

export async function openLocal(
  address: LocalAddress,
  user: UserContext,
  services: LocalServices,
): Promise<OpenedLocal> {
  const reopen = () => openDatabase(address, user, services)
  return { database: await reopen(), reopen }
}

/** Throws the error for the caller of the replication where that is not possible. */
async function openDatabase(
  { name, shown }: LocalAddress,
  user: UserContext,
  { auth, lease }: LocalServices,
): Promise<Database> {
  try {
    return (await auth.access.open(name, user)).under(lease)
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    // There is no database of a name that none can have.
    if (error.kind === 'not found' || error.error === 'illegal_database_name') {
      throw databaseNotFound(shown, 'not found')
    }
    throw error.kind === 'unauthorized' || error.kind === 'forbidden' ? unauthorizedPeer(shown) : error
  }
}

/** Creates the database unless it is there. */
export async function createLocal(
  { name, shown }: LocalAddress,
  user: UserContext,
  { databases }: LocalServices,
  options: DatabaseOptions,
): Promise<void> {
  if (databases.has(name)) return
  if (!isServerAdmin(user)) throw unauthorizedPeer(shown)
  try {
    await databases.create(name, options)
  } catch (error) {
    if (!(error instanceof RequestError && error.kind === 'precondition failed')) throw error
  }
}

/** What local sources and targets have in common. */
export class LocalPeer implements Peer {
  readonly shown: string
  protected database: Database
  readonly #reopen: () => Promise<Database>
  #securityChanges: number

  /** `reopen` throws where the user may not use the database any more. */
  constructor(shown: string, database: Database, reopen: () => Promise<Database>) {
    this.shown = shown
    this.database = database
    this.#reopen = reopen
    this.#securityChanges = database.securityChanges
  }

  async information(): Promise<PeerInformation> {
    const { updateSequence } = await this.database.latestState()
    return { updateSequence, instanceStartTime: this.#startTime }
  }

  async readLog(id: string): Promise<StoredLog | undefined> {
    using view = this.database.view()
    const local = await view.local(`_local/${id}`)
    if (!local) return undefined
    const members: Record<string, JsonValue> = JSON.parse(local.text.toString())
    return { revision: localRevision(local.count), members }
  }

  async writeLog(id: string, log: object, revision: string | undefined): Promise<string> {
    const parent = revision === undefined ? undefined : parseRevision(revision)
    const body = Buffer.from(JSON.stringify(log))
    const [outcome] = await this.database.write([{ kind: 'local', id: `_local/${id}`, parent, deleted: false, body }])
    if (outcome?.outcome === 'written') return outcome.revision
    throw outcome?.error ?? conflict()
  }

  async flush(): Promise<string | undefined> {
    await this.database.flush()
    this.checkPresence()
    return this.#startTime
  }

  /** Throws when the database was deleted: what is created under its name later is another one. */
  protected checkPresence(): void {
    if (this.database.isDeleted) throw databaseNotFound(this.shown, 'not found')
  }

  /** Rights may be withdrawn, or become others, while a replication runs. */
  protected async checkRights(): Promise<void> {
    const { securityChanges } = this.database
    if (securityChanges === this.#securityChanges) return
    this.database = await this.#reopen()
    this.#securityChanges = securityChanges
  }

  get #startTime(): string {
    return String(this.database.openedUs)
  }
}
