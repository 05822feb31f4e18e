/**
 * OAuth credentials of user documents, as an index in memory by consumer key and token. Updated from the changes of the
 * users database before each lookup.
 */

import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import { decodeChange } from '../../database/layout/change-row.ts'
import { afterPrefix, CHANGE_PREFIX, changeKey } from '../../database/layout/keys.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import { ambiguousPair, type OAuthSecrets } from '../identity/oauth.ts'
import { Semaphore } from '../passwords/semaphore.ts'
import { membersIn, nameOfUserId, type UserMembers } from './user-documents.ts'

interface UserCredentials {
  readonly name: string
  readonly consumers: ReadonlyMap<string, string>
  readonly tokens: ReadonlyMap<string, string>
}

export class OAuthUsers {
  readonly #users: () => Promise<Database>
  readonly #updates = new Semaphore(1)
  /** By document id: only users that have credentials. */
  readonly #credentials = new Map<string, UserCredentials>()
  /** By token: the ids of the documents that have it. */
  readonly #byToken = new Map<string, Set<string>>()
  #indexed: { readonly database: Database; readonly sequence: number; readonly purges: number } | undefined

  constructor(users: () => Promise<Database>) {
    this.#users = users
  }

  /** Every consumer key of a user goes with every token of the same user. Throws where two users have the same pair. */
  async find(consumerKey: string, token: string): Promise<OAuthSecrets | undefined> {
    await this.#updates.run(() => this.#update())
    const found: OAuthSecrets[] = []
    for (const id of this.#byToken.get(token) ?? []) {
      const user = this.#credentials.get(id)
      const consumer = user?.consumers.get(consumerKey)
      const secret = user?.tokens.get(token)
      if (user && consumer && secret) found.push({ consumer, token: secret, user: user.name })
    }
    if (found.length > 1) throw ambiguousPair()
    return found[0]
  }

  async #update(): Promise<void> {
    const database = await this.#users()
    using view = database.view()
    const { updateSequence, purgeSequence } = await view.state()
    const isSame = this.#indexed?.database === database && this.#indexed.purges === purgeSequence
    // A purge is not in the changes feed.
    if (!isSame) this.#clear()
    const since = isSame ? (this.#indexed?.sequence ?? 0) : 0
    if (since < updateSequence) await this.#read(view, since)
    this.#indexed = { database, sequence: updateSequence, purges: purgeSequence }
  }

  #clear(): void {
    this.#credentials.clear()
    this.#byToken.clear()
  }

  async #read(view: DatabaseView, since: number): Promise<void> {
    let rest: KeyRange | undefined = { from: changeKey(since + 1), to: afterPrefix(CHANGE_PREFIX) }
    while (rest) {
      const page: Page = await view.snapshot.page(rest)
      const changes = Array.from({ length: page.length }, (_, row) => decodeChange(page.value(row)))
      const bodies = await view.bodies(changes.map(({ body }) => body))
      for (const [i, { id, deleted }] of changes.entries()) {
        this.#replace(id, deleted ? undefined : credentialsOf(id, membersIn(bodies[i]!.text)))
      }
      rest = page.next
    }
  }

  #replace(id: string, credentials: UserCredentials | undefined): void {
    for (const token of this.#credentials.get(id)?.tokens.keys() ?? []) {
      const ids = this.#byToken.get(token)
      ids?.delete(id)
      if (ids?.size === 0) this.#byToken.delete(token)
    }
    this.#credentials.delete(id)
    if (!credentials) return
    this.#credentials.set(id, credentials)
    for (const token of credentials.tokens.keys()) {
      this.#byToken.set(token, (this.#byToken.get(token) ?? new Set<string>()).add(id))
    }
  }
}

function credentialsOf(id: string, { oauth }: UserMembers): UserCredentials | undefined {
  const name = nameOfUserId(id)
  if (name === undefined || typeof oauth !== 'object' || oauth === null) return undefined
  const consumers = textsIn('consumer_keys' in oauth ? oauth.consumer_keys : undefined)
  const tokens = textsIn('tokens' in oauth ? oauth.tokens : undefined)
  return consumers.size > 0 && tokens.size > 0 ? { name, consumers, tokens } : undefined
}

function textsIn(value: unknown): Map<string, string> {
  if (typeof value !== 'object' || value === null) return new Map()
  return new Map(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'))
}
