/** Who a call comes from, once that is known. */
import type { Auth } from '../../auth/auth.ts'
import type { AuthRequest } from '../../auth/identity/auth-request.ts'
import type { Authentication, HandlerName, Session } from '../../auth/identity/handlers.ts'
import type { Database } from '../../database/database.ts'
import type { UserContext } from '../../database/user-context.ts'

/** A call whose sender is known, be it as nobody. */
export class AuthenticatedCall {
  readonly auth: Auth
  readonly user: UserContext
  /** How the sender is known; undefined for nobody. */
  readonly handler: HandlerName | undefined
  readonly session: Session | undefined
  readonly request: AuthRequest
  #opened: { readonly name: string; readonly database: Database | Promise<Database> } | undefined

  constructor(auth: Auth, request: AuthRequest, { user, handler, session }: Authentication) {
    this.auth = auth
    this.request = request
    this.user = user
    this.handler = handler
    this.session = session
  }

  /** A database as the sender may use it, opened once a call. */
  openDatabase(name: string): Database | Promise<Database> {
    if (this.#opened?.name !== name) {
      const { auth, user } = this
      this.#opened = { name, database: auth.openedDatabase(name, user) ?? auth.openDatabase(name, user) }
    }
    return this.#opened.database
  }
}
