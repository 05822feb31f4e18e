/**
 * The one place that settings are read from and changed in. Layers on top of each other: shipped defaults, the operator's
 * files, stored changes, the environment, the flags of this start. What is changed at run time counts above all of them
 * at once, and at the next start takes its place among the stored changes. Servers on one engine share those changes: then
 * most of them are stored there.
 */

import { ADMINS, AdminHashes, type AdminPasswords } from './admin-hashes.ts'
import { canonicalSection, type SettingMap, withSetting } from './ini-text.ts'
import {
  checkAll,
  differences,
  type EffectiveSettings,
  mergedLayer,
  type SettingChange,
  type SettingLayer,
  SettingLayers,
  withEntry,
} from './setting-layers.ts'
import { checkSettingName, problemWith, SettingError } from './setting-rules.ts'
import type { OperatorFile, OperatorFiles, SettingStore } from './setting-sources.ts'
import { isShared, type SharedSettings } from './shared-settings.ts'

export type { SettingChange, SettingLayer } from './setting-layers.ts'

export interface ConfigurationSources {
  readonly defaults: SettingMap
  readonly files?: OperatorFiles
  readonly stored: SettingStore
  readonly environment?: SettingMap
  readonly flags?: SettingMap
  readonly adminPasswords?: AdminPasswords
  /** Called where hashes of passwords cannot be stored; without it that is an error. */
  readonly onUnsaved?: (error: unknown) => void
}

/** A value that is derived from settings, up to date. */
export interface Derived<T> {
  readonly current: T
}

export interface ChangeOptions {
  /** False for a change that a restart forgets. */
  readonly persist?: boolean
  /** True for a plain password of an administrator, even if it looks like a hash; otherwise a hash is kept as it is. */
  readonly isPlainPassword?: boolean
}

/** Called after a change; the change is answered when all listeners have applied it. Must not throw. */
export type ChangeListener = (change: SettingChange) => void | Promise<void>

export interface GuardedChange extends SettingChange {
  /** Of the operator's own files, and of no request. */
  readonly isFromFile?: boolean
}

/** Called before a change is made; throws `SettingError` where it would stop the server. */
export type ChangeGuard = (change: GuardedChange) => void | Promise<void>

export class Configuration {
  readonly #sources: ConfigurationSources
  readonly #layers: SettingLayers
  readonly #adminHashes: AdminHashes | undefined
  readonly #listeners = new Set<ChangeListener>()
  readonly #guards = new Set<ChangeGuard>()
  #sharedStore: SharedSettings | undefined
  #effective: EffectiveSettings = new Map()
  /** Weak: after a restart the values are derived again, and the old ones must not stay. */
  #derived: WeakRef<DerivedValue<unknown>>[] = []
  #turn: Promise<unknown> = Promise.resolve()

  /** Throws `SettingError` when a setting is one that the server cannot work with. */
  static async load(sources: ConfigurationSources): Promise<Configuration> {
    const configuration = new Configuration(sources)
    await configuration.reload()
    return configuration
  }

  private constructor(sources: ConfigurationSources) {
    this.#sources = sources
    this.#layers = new SettingLayers(sources)
    this.#adminHashes = sources.adminPasswords && new AdminHashes(sources.adminPasswords, this)
  }

  /** Reads all files again and drops what was not stored. Listeners are not called; nothing changes if it throws. */
  async reload(): Promise<void> {
    await this.#inTurn(async () => {
      const { files, stored } = this.#sources
      const hashes = this.#adminHashes
      const operatorFiles = (await files?.load()) ?? []
      const layers = {
        files: mergedLayer(operatorFiles.map((file) => file.settings)),
        stored: await stored.load(),
        passing: new Map(),
      }
      checkAll(this.#layers.merged(layers))
      this.#layers.files = layers.files
      this.#layers.stored = layers.stored
      this.#layers.passing = layers.passing
      this.#setEffective(this.#layers.merged(layers))
      if (!hashes) return
      await this.#hashAdminsOf(operatorFiles, hashes)
      this.#layers.environment = await hashes.protectAll(this.#layers.environment)
      this.#layers.flags = await hashes.protectAll(this.#layers.flags)
      const hashed = await hashes.protectAll(this.#layers.stored)
      if (hashed !== this.#layers.stored) await this.#saved(() => stored.save(hashed))
      this.#layers.stored = hashed
      this.#setEffective(this.#layers.merged())
    })
  }

  /**
   * Reads the operator's files again. What was changed at run time still counts above them. Nothing changes when it
   * throws: `SettingError` where the files have a setting that the server cannot work with.
   */
  refresh(): Promise<void> {
    return this.#inTurn(async () => {
      const operatorFiles = (await this.#sources.files?.load()) ?? []
      const layer = mergedLayer(operatorFiles.map((file) => file.settings))
      const before = this.#effective
      const after = this.#layers.merged({ files: layer })
      checkAll(after)
      for (const change of differences(before, after)) {
        for (const guard of this.#guards) await guard({ ...change, isFromFile: true })
      }
      this.#layers.files = layer
      this.#setEffective(after)
      if (this.#adminHashes) await this.#hashAdminsOf(operatorFiles, this.#adminHashes)
      this.#setEffective(this.#layers.merged())
      await this.#notify(before)
    })
  }

  /** From now on changes are shared with other servers. Listeners are called. Returns how to end it. */
  async share(store: SharedSettings): Promise<() => void> {
    const isFirst = this.#layers.shared === undefined
    const unwatch = store.watch(() => this.#inTurn(() => this.#readShared(store)))
    this.#sharedStore = store
    await this.#inTurn(async () => {
      if (!isFirst) return this.#readShared(store)
      const before = this.#effective
      this.#layers.beginSharing(await store.load())
      this.#setEffective(this.#layers.merged())
      await this.#notify(before)
    })
    return () => {
      unwatch()
      this.#sharedStore = undefined
    }
  }

  /** Another object after each change: what was made of the settings under one state stays right under it. */
  get state(): object {
    return this.#effective
  }

  get(section: string, key: string): string | undefined {
    return this.#effective.get(canonicalSection(section))?.get(key)
  }

  /** A setting that has a default, which counts again when the setting was removed. */
  text(section: string, key: string): string {
    const value = this.get(section, key) ?? this.#layers.shipped(canonicalSection(section), key)
    if (value === undefined) throw new Error(`The setting ${section}/${key} has no value.`)
    return value
  }

  integer(section: string, key: string): number {
    const text = this.text(section, key)
    if (!/^\s*-?\d+\s*$/.test(text)) throw new Error(`The setting ${section}/${key} is not an integer: ${text}`)
    return Number(text)
  }

  /** Only the word `true` turns something on. */
  isOn(section: string, key: string): boolean {
    return this.get(section, key) === 'true'
  }

  /** All keys of a section with the values that count. */
  section(section: string): ReadonlyMap<string, string> {
    return this.#effective.get(canonicalSection(section)) ?? new Map()
  }

  /** A section as the files of the operator and this start have it: without anything that was changed at run time. */
  startupSection(section: string): ReadonlyMap<string, string> {
    return this.#layers.atStart().get(canonicalSection(section)) ?? new Map()
  }

  /** The layer that the value of a setting comes from; undefined where it has none. */
  layerOf(section: string, key: string): SettingLayer | undefined {
    return this.get(section, key) === undefined ? undefined : this.#layers.layerOf(canonicalSection(section), key)
  }

  /** All effective settings; null means a default that was removed. */
  entries(): (readonly [section: string, key: string, value: string | null])[] {
    const counting = [...this.#effective].flatMap(([section, keys]) =>
      [...keys].map(([key, value]): readonly [string, string, string | null] => [section, key, value]),
    )
    const removed = [...this.#layers.defaults.keys()].flatMap((section) =>
      Array.from(this.removedKeys(section), (key): readonly [string, string, string | null] => [section, key, null]),
    )
    return [...counting, ...removed]
  }

  /** Makes these all that count, for a process that follows another one: nothing is stored. */
  async follow(entries: readonly (readonly [section: string, key: string, value: string | null])[]): Promise<void> {
    const wanted = new Map(entries.map(([section, key, value]) => [JSON.stringify([section, key]), value]))
    for (const [section, key] of this.entries()) {
      if (typeof wanted.get(JSON.stringify([section, key])) !== 'string') {
        await this.delete(section, key, { persist: false })
      }
    }
    for (const [section, key, value] of entries) {
      if (value !== null && value !== this.get(section, key)) await this.set(section, key, value, { persist: false })
    }
  }

  /** The names of all sections that have a key. */
  sections(): string[] {
    return [...this.#effective].filter(([, keys]) => keys.size > 0).map(([name]) => name)
  }

  /** Keys of a section whose default was removed. */
  removedKeys(section: string): ReadonlySet<string> {
    const shipped = this.#layers.defaults.get(canonicalSection(section))?.keys() ?? []
    return new Set(Array.from(shipped).filter((key) => this.isRemoved(section, key)))
  }

  /** Whether a default was removed. */
  isRemoved(section: string, key: string): boolean {
    return this.get(section, key) === undefined && this.#layers.shipped(canonicalSection(section), key) !== undefined
  }

  /** Resolves to the previous value, when the new one is on disk and all listeners have applied it. */
  set(section: string, key: string, value: string, options: ChangeOptions = {}): Promise<string | undefined> {
    return this.#confirmed(async () => {
      const name = canonicalSection(section)
      checkSettingName(name, key)
      const problem = problemWith(name, key, value)
      if (problem !== undefined) throw new SettingError(problem)
      const kept = name === ADMINS ? await this.#protected(value, options) : value
      for (const guard of this.#guards) await guard({ section: name, key, value: kept })
      return this.#change(name, key, kept, options)
    })
  }

  /** Sets what has no value, in any of the servers that share settings. Resolves to the value that counts. */
  async ensure(section: string, key: string, value: string): Promise<string> {
    const name = canonicalSection(section)
    await this.#confirmed(async () => {
      const store = isShared(name, key) ? this.#sharedStore : undefined
      if (store) {
        await store.ensure(name, key, value)
        await this.#readShared(store)
      } else if (this.get(name, key) === undefined) await this.#change(name, key, value, {})
    })
    return this.get(name, key) ?? value
  }

  /** Removes a setting, whichever layer it comes from. Resolves to the value that it had. */
  delete(section: string, key: string, options: ChangeOptions = {}): Promise<string | undefined> {
    return this.#confirmed(async () => {
      const name = canonicalSection(section)
      if (this.get(name, key) === undefined) return undefined
      for (const guard of this.#guards) await guard({ section: name, key, value: this.#layers.shipped(name, key) })
      return this.#change(name, key, null, options)
    })
  }

  /** Calls back after each change; returns how to unsubscribe. */
  onChange(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Calls back before each change, which may then still be refused; returns how to unsubscribe. */
  beforeChange(guard: ChangeGuard): () => void {
    this.#guards.add(guard)
    return () => this.#guards.delete(guard)
  }

  /** The result of `read`, computed again with every change: requests read a field instead of the settings. */
  derive<T>(read: () => T): Derived<T> {
    const derived = new DerivedValue(read)
    this.#derived.push(new WeakRef(derived))
    return derived
  }

  #setEffective(settings: EffectiveSettings): void {
    this.#effective = settings
    this.#derived = this.#derived.filter((each) => each.deref())
    for (const each of this.#derived) each.deref()?.refresh()
  }

  async #change(
    section: string,
    key: string,
    value: string | null,
    { persist = true }: ChangeOptions,
  ): Promise<string | undefined> {
    const before = this.get(section, key)
    if (persist) {
      await this.#store(section, key, value)
      this.#layers.change(section, key, value)
    } else {
      this.#layers.changeUnsaved(section, key, value)
    }
    this.#setEffective(this.#layers.merged())
    const change = { section, key, value: this.get(section, key) }
    for (const listener of this.#listeners) await listener(change)
    return before
  }

  async #store(section: string, key: string, value: string | null): Promise<void> {
    const store = isShared(section, key) ? this.#sharedStore : undefined
    const entry = this.#layers.entryFor(store ? 'shared' : 'stored', section, key, value)
    if (store) {
      await store.change(section, key, entry)
      this.#layers.shared = withEntry(this.#layers.shared, section, key, entry)
      return
    }
    const settings = withEntry(this.#layers.stored, section, key, entry)
    await this.#sources.stored.save(settings)
    this.#layers.stored = settings
  }

  /** Applies what other servers have changed. */
  async #readShared(store: SharedSettings): Promise<void> {
    const shared = await store.load()
    const before = this.#effective
    this.#layers.followShared(shared)
    this.#setEffective(this.#layers.merged())
    await this.#notify(before)
  }

  async #notify(before: EffectiveSettings): Promise<void> {
    for (const change of differences(before, this.#effective)) {
      for (const listener of this.#listeners) await listener(change)
    }
  }

  async #protected(value: string, { isPlainPassword = false }: ChangeOptions): Promise<string> {
    return this.#adminHashes?.protect(value, isPlainPassword) ?? value
  }

  /** Replaces the plain passwords in the operator's files, each in its line. */
  async #hashAdminsOf(files: readonly OperatorFile[], hashes: AdminHashes): Promise<void> {
    for (const { path, settings } of files) {
      for (const [name, hash] of await hashes.hashesFor(settings)) {
        await this.#saved(async () => this.#sources.files?.replace(path, ADMINS, name, hash))
        this.#layers.files = withSetting(this.#layers.files, ADMINS, name, hash)
      }
    }
  }

  /** A full disk does not keep the server from starting: the hashes count all the same, until the process ends. */
  async #saved(save: () => Promise<void>): Promise<void> {
    try {
      await save()
    } catch (error) {
      if (!this.#sources.onUnsaved) throw error
      this.#sources.onUnsaved(error)
    }
  }

  /** A change in turn. Then the other servers apply it: not in turn, since they may wait for this one with a change of theirs. */
  async #confirmed<T>(change: () => Promise<T>): Promise<T> {
    const before = this.#layers.shared
    const result = await this.#inTurn(change)
    if (this.#layers.shared !== before) await this.#sharedStore?.confirm()
    return result
  }

  /** One change after the other, whether the previous one failed or not. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => {})
    return done
  }
}

class DerivedValue<T> implements Derived<T> {
  current: T
  readonly #read: () => T

  constructor(read: () => T) {
    this.#read = read
    this.current = read()
  }

  refresh(): void {
    this.current = this.#read()
  }
}
