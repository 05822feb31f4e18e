/** Authentication for tests of this folder: settings, databases and requests that are easily written down. */
import { onTestFinished } from 'vitest'
import { Auth } from '../../src/auth/auth.ts'
import type { ChangedSetting, SettingSource } from '../../src/auth/auth-settings.ts'
import type { AuthRequest } from '../../src/auth/identity/auth-request.ts'
import type { Database } from '../../src/database/database.ts'
import { Databases } from '../../src/database/databases.ts'
import type { UserContext } from '../../src/database/user-context.ts'
import { AllOrNothingError } from '../../src/database/writing/edit.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { type Log, silentLog } from '../../src/runtime/log/log.ts'
import { TaskRegistry } from '../../src/runtime/tasks.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import { put } from '../database/test-database.ts'
import { QUICK_ITERATIONS } from '../support/quick-hashes.ts'

export type Settings = Record<string, Record<string, string>>

/** Settings as they are, without files. */
export class TestSettings implements SettingSource {
  state = {}
  readonly #sections = new Map<string, Map<string, string>>()
  readonly #listeners = new Set<(change: ChangedSetting) => void | Promise<void>>()

  constructor(settings: Settings = {}) {
    for (const [section, keys] of Object.entries(settings)) this.#sections.set(section, new Map(Object.entries(keys)))
  }

  get(section: string, key: string): string | undefined {
    return this.#sections.get(section)?.get(key)
  }

  section(section: string): ReadonlyMap<string, string> {
    return this.#sections.get(section) ?? new Map()
  }

  async ensure(section: string, key: string, value: string): Promise<string> {
    const there = this.get(section, key)
    if (there === undefined) await this.set(section, key, value)
    return there ?? value
  }

  async set(section: string, key: string, value: string): Promise<void> {
    this.#sections.set(section, new Map(this.section(section)).set(key, value))
    await this.#tell({ section, key })
  }

  async delete(section: string, key: string): Promise<void> {
    this.#sections.get(section)?.delete(key)
    await this.#tell({ section, key })
  }

  onChange(listener: (change: ChangedSetting) => void | Promise<void>): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  derive<T>(read: () => T): { readonly current: T } {
    return {
      get current() {
        return read()
      },
    }
  }

  async #tell(change: ChangedSetting): Promise<void> {
    this.state = {}
    for (const listener of this.#listeners) await listener(change)
  }
}

export class TestClock implements Clock {
  seconds = 1_700_000_000

  nowMs(): number {
    return this.seconds * 1000
  }

  nowUs(): number {
    return this.seconds * 1_000_000
  }
}

export interface TestAuth {
  readonly auth: Auth
  readonly settings: TestSettings
  readonly databases: Databases
  readonly clock: TestClock
  /** One entry a lookup: whether it was in memory. */
  readonly lookups: boolean[]
  /** The users database as a user has it. */
  users(user: UserContext): Promise<Database>
}

export const ADMIN: UserContext = { name: 'root', roles: ['_admin'] }
export const NOBODY: UserContext = { name: null, roles: [] }

export function user(name: string, ...roles: string[]): UserContext {
  return { name, roles }
}

/** Authentication that has begun, over databases in memory. */
export async function startAuth(given: Settings = {}, log: Log = silentLog): Promise<TestAuth> {
  const settings = new TestSettings({
    ...given,
    service_httpd_auth: { iterations: QUICK_ITERATIONS, ...given.service_httpd_auth },
  })
  const clock = new TestClock()
  const databases = new Databases(new MemoryEngine(), { clock, log, tasks: new TaskRegistry(clock) })
  const lookups: boolean[] = []
  const auth = new Auth({ settings, databases, clock, log, onLookup: (isHit) => lookups.push(isHit) })
  await auth.start()
  onTestFinished(() => auth.close())
  return { auth, settings, databases, clock, lookups, users: (asked) => auth.access.open('_users', asked) }
}

export function request(headers: AuthRequest['headers'] = {}, given: Partial<AuthRequest> = {}): AuthRequest {
  return { method: 'GET', url: '/', headers, isSecure: false, localAddress: '127.0.0.1:5984', ...given }
}

export function basic(name: string, password: string): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` }
}

/** The document of a user, as written at registration. */
export function newUser(name: string, password: string, members: object = {}) {
  return put(`org.service.user:${name}`, { name, password, roles: [], type: 'user', ...members })
}

/** The outcome of one write in short: the revision, or status and reason. */
export async function outcomeOf(writing: ReturnType<Database['write']>): Promise<string> {
  try {
    const [outcome] = await writing
    if (outcome?.outcome === 'written') return 'written'
    return `${outcome?.error.kind}: ${outcome?.error.reason}`
  } catch (error) {
    // Of edits that are refused together, why the first one is.
    if (error instanceof AllOrNothingError) return `${error.refused[0]?.error.kind}: ${error.refused[0]?.error.reason}`
    return error instanceof Error ? error.message : String(error)
  }
}
