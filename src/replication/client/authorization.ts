/**
 * Authorizes requests to a peer. With a name and a password a session is opened if the server has sessions: a cookie is
 * cheaper to verify than a password. Otherwise the password is sent with every request.
 */
import {
  basicAuthorization,
  type Credentials,
  oauthAuthorization,
  type PasswordCredentials,
  type Place,
} from './credentials.ts'
import type { HttpReply } from './http-reply.ts'

/** Posts without authorization. */
export type PlainPost = (
  place: Place,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
) => Promise<HttpReply>

export class Authorization {
  readonly #credentials: Credentials | undefined
  readonly #sessions: Place
  readonly #post: PlainPost
  #cookie: string | undefined
  /** Set if the server has no sessions, or refuses to open one. */
  #usesPassword = false
  #login: Promise<void> | undefined

  constructor(credentials: Credentials | undefined, databaseUrl: string, post: PlainPost) {
    this.#credentials = credentials
    // Beside the database, below whatever prefix both have.
    const { origin, pathname } = new URL('../_session', databaseUrl)
    this.#sessions = { origin, path: pathname, query: '' }
    this.#post = post
  }

  /** The signal is that of the request; it also aborts the opening of a session. */
  async headersFor(method: string, place: Place, signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    const credentials = this.#credentials
    if (!credentials) return NONE
    if (credentials.kind === 'oauth')
      return { authorization: oauthAuthorization(credentials, method, place, Date.now()) }
    if (this.#cookie === undefined && !this.#usesPassword) await this.#begin(credentials, signal)
    if (this.#cookie !== undefined) return { cookie: `AuthSession=${this.#cookie}` }
    return { authorization: basicAuthorization(credentials) }
  }

  /** Servers renew a session while it is used. */
  learn(reply: HttpReply): void {
    if (this.#cookie !== undefined) this.#cookie = sessionIn(reply) ?? this.#cookie
  }

  /** A request was refused: whether it should be sent again with a new session. */
  forget(): boolean {
    const hadSession = this.#cookie !== undefined
    this.#cookie = undefined
    return hadSession
  }

  #begin(credentials: PasswordCredentials, signal: AbortSignal): Promise<void> {
    this.#login ??= this.#logIn(credentials, signal).finally(() => {
      this.#login = undefined
    })
    return this.#login
  }

  async #logIn({ name, password }: PasswordCredentials, signal: AbortSignal): Promise<void> {
    const headers = { 'content-type': 'application/json', accept: 'application/json' }
    const body = JSON.stringify({ name, password })
    const reply = await this.#post(this.#sessions, headers, body, signal)
    this.#cookie = reply.isSuccess ? sessionIn(reply) : undefined
    await reply.discard()
    // A server that is busy may have sessions all the same.
    if (this.#cookie === undefined && reply.status < 500 && reply.status !== 429) this.#usesPassword = true
  }
}

const NONE: Readonly<Record<string, string>> = {}

function sessionIn(reply: HttpReply): string | undefined {
  for (const cookie of reply.headers('set-cookie')) {
    const [, value] = /^AuthSession="?([^;"]+)"?/i.exec(cookie) ?? []
    if (value !== undefined) return value
  }
  return undefined
}
