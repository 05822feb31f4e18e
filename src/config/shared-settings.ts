/**
 * Settings that several servers share. They are rows of a store that all of them use, one for each setting that was changed at
 * run time. What names a place of one machine is not shared: ports, folders, files.
 */
import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Store } from '../storage/store.ts'
import { type SettingMap, withSetting } from './ini-text.ts'

/** A value; null for a default that was removed; undefined for no entry. */
export type SharedValue = string | null | undefined

const OWN_SECTIONS = new Set(['ssl', 'lmdb', 'engines'])
const OWN_SETTINGS = new Set([
  'daemons/httpsd',
  'httpd/bind_address',
  'httpd/port',
  'log/file',
  'service/database_dir',
  'service/engine',
  'service/nodes',
  'service/uri_file',
  'service/view_index_dir',
])

/** Whether servers on one engine share a setting. */
export function isShared(section: string, key: string): boolean {
  return !OWN_SECTIONS.has(section) && !OWN_SETTINGS.has(`${section}/${key}`)
}

export class SharedSettings {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  async load(): Promise<SettingMap> {
    using snapshot = this.#store.snapshot()
    let settings: SettingMap = new Map()
    let page = await snapshot.page({})
    for (;;) {
      for (let row = 0; row < page.length; row++) {
        const [section, key, value] = decoded(page.value(row))
        settings = withSetting(settings, section, key, value)
      }
      if (!page.next) return settings
      page = await snapshot.page(page.next)
    }
  }

  /** Resolves when the change is on disk. */
  async change(section: string, key: string, value: SharedValue): Promise<void> {
    const name = nameOf(section, key)
    await this.#store.commit(
      value === undefined ? { deletes: [name] } : { puts: [[name, encoded(section, key, value)]] },
    )
  }

  /** Adds a setting unless another server has; resolves to the value that is there then. */
  async ensure(section: string, key: string, value: string): Promise<string> {
    const name = nameOf(section, key)
    for (;;) {
      using snapshot = this.#store.snapshot()
      const [expected, stored] = await Promise.all([snapshot.version(), snapshot.get(name)])
      const [, , there] = stored ? decoded(stored) : []
      if (typeof there === 'string') return there
      snapshot.release()
      const { outcome } = await this.#store.commit({ puts: [[name, encoded(section, key, value)]], expected })
      if (outcome === 'committed') return value
    }
  }

  /**
   * Calls back when other servers have made changes; they wait until it resolves. While it fails, since the engine cannot be
   * reached, it is called again. Returns how to stop.
   */
  watch(apply: () => Promise<void>): () => void {
    const application = new RepeatedApplication(apply)
    const unwatch = this.#store.sharing?.watch(() => application.signal())
    return () => {
      application.stop()
      unwatch?.()
    }
  }

  /** Resolves when the other servers have applied the changes so far. */
  async confirm(): Promise<void> {
    await this.#store.sharing?.confirm()
  }
}

/** The time after which changes that could not be applied are applied again. */
const RETRY_MS = 500

/** Applies changes, one time after the other, for as long as there are signals of more. */
class RepeatedApplication {
  readonly #apply: () => Promise<void>
  /** Whether there was a signal since the last time began. */
  #isDue = false
  #isStopped = false
  #running: Promise<void> | undefined

  constructor(apply: () => Promise<void>) {
    this.#apply = apply
  }

  /** Resolves when the changes so far are applied. */
  signal(): Promise<void> {
    this.#isDue = true
    this.#running ??= this.#run()
    return this.#running
  }

  stop(): void {
    this.#isStopped = true
  }

  async #run(): Promise<void> {
    while (this.#isDue && !this.#isStopped) {
      this.#isDue = false
      try {
        await this.#apply()
      } catch {
        this.#isDue = true
        await pause(RETRY_MS, undefined, { ref: false })
      }
    }
    // At once: a later signal starts a new run.
    this.#running = undefined
  }
}

/** Of a fixed length: names of settings have none. */
function nameOf(section: string, key: string): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([section, key]))
    .digest()
}

function encoded(section: string, key: string, value: string | null): Buffer {
  return Buffer.from(JSON.stringify([section, key, value]))
}

function decoded(row: Buffer): [section: string, key: string, value: string | null] {
  const [section, key, value]: unknown[] = JSON.parse(row.toString())
  return [String(section), String(key), typeof value === 'string' ? value : null]
}
