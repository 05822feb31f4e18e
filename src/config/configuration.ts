/**
 * The one place that settings are read from and changed in. Layers on top of each other: shipped defaults, the operator's
 * files, stored changes, the environment, the flags of this start. What is changed at run time counts above all of them
 * at once, and at the next start takes its place among the stored changes. Servers on one engine share those changes: then
 * most of them are stored there.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { ADMINS, AdminHashes, type AdminPasswords } from './admin-hashes.ts'
import { canonicalSection, mergedSettings, type SettingMap, withoutSetting, withSetting } from './ini-text.ts'
import { checkSettingName, problemWith, SettingError } from './setting-rules.ts'
import type { OperatorFile, OperatorFiles, SettingStore } from './setting-sources.ts'
import { isShared, type SharedSettings, type SharedValue } from './shared-settings.ts'

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

export interface SettingChange {
  readonly section: string
  readonly key: string
  /** The new value; undefined when the setting is removed. */
  readonly value: string | undefined
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

/** Where a value comes from, by the names that operators know. */
export type SettingLayer = 'default' | 'file' | 'stored' | 'environment' | 'flag' | 'unsaved'

const NONE: SettingMap = new Map()

/** After which shared settings that could not be read are read again. */
const RETRY_MS = 500

export class Configuration {
  readonly #sources: ConfigurationSources
  readonly #adminHashes: AdminHashes | undefined
  readonly #listeners = new Set<ChangeListener>()
  readonly #guards = new Set<ChangeGuard>()
  #files: SettingMap = new Map()
  #stored: SettingMap = new Map()
  /** What any of the servers on one engine changed, as of the last time that it was read. */
  #shared: SettingMap | undefined
  #sharedStore: SharedSettings | undefined
  /** Whether another server has changed settings that were not read yet. */
  #isSharedDue = false
  #sharedReading: Promise<void> | undefined
  #environment: SettingMap
  #flags: SettingMap
  /** What was changed and stored while this process runs, here or in another server: it was asked for later than the flags. */
  #changed: SettingMap = new Map()
  /** What this process changed and did not store. */
  #passing: SettingMap = new Map()
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
    this.#environment = sources.environment ?? new Map()
    this.#flags = sources.flags ?? new Map()
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
      checkAll(this.#merged(layers))
      this.#files = layers.files
      this.#stored = layers.stored
      this.#passing = layers.passing
      this.#setEffective(this.#merged(layers))
      if (!hashes) return
      await this.#hashAdminsOf(operatorFiles, hashes)
      this.#environment = await hashes.protectAll(this.#environment)
      this.#flags = await hashes.protectAll(this.#flags)
      const hashed = await hashes.protectAll(this.#stored)
      if (hashed !== this.#stored) await this.#saved(() => stored.save(hashed))
      this.#stored = hashed
      this.#setEffective(this.#merged())
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
      const after = this.#merged({ files: layer })
      checkAll(after)
      for (const change of differences(before, after)) {
        for (const guard of this.#guards) await guard({ ...change, isFromFile: true })
      }
      this.#files = layer
      this.#setEffective(after)
      if (this.#adminHashes) await this.#hashAdminsOf(operatorFiles, this.#adminHashes)
      this.#setEffective(this.#merged())
      await this.#notify(before)
    })
  }

  /** From now on changes are shared with other servers. Listeners are called. Returns how to end it. */
  async share(store: SharedSettings): Promise<() => void> {
    const isFirst = this.#shared === undefined
    const unwatch = store.watch(() => this.#followShared(store))
    this.#sharedStore = store
    await this.#inTurn(async () => {
      if (!isFirst) return this.#readShared(store)
      const before = this.#effective
      this.#shared = usable(await store.load())
      // What was changed here before counts for less than what the servers share.
      for (const [section, key] of changedEntries(NONE, this.#shared)) {
        this.#changed = withoutSetting(this.#changed, section, key)
      }
      this.#setEffective(this.#merged())
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
    const value = this.get(section, key) ?? this.#shipped(section, key)
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
    const layers = [this.#sources.defaults, this.#files, this.#environment, this.#flags]
    return mergedSettings(layers).get(canonicalSection(section)) ?? new Map()
  }

  /** The layer that the value of a setting comes from; undefined where it has none. */
  layerOf(section: string, key: string): SettingLayer | undefined {
    const name = canonicalSection(section)
    if (this.get(name, key) === undefined) return undefined
    const layers: readonly (readonly [SettingLayer, SettingMap])[] = [
      ['unsaved', this.#passing],
      ['stored', this.#changed],
      ['flag', this.#flags],
      ['environment', this.#environment],
      ['stored', this.#shared ?? NONE],
      ['stored', this.#stored],
      ['file', this.#files],
    ]
    return layers.find(([, settings]) => settings.get(name)?.has(key))?.[0] ?? 'default'
  }

  /** All effective settings; null means a default that was removed. */
  entries(): (readonly [section: string, key: string, value: string | null])[] {
    const counting = [...this.#effective].flatMap(([section, keys]) =>
      [...keys].map(([key, value]): readonly [string, string, string | null] => [section, key, value]),
    )
    const removed = [...this.#sources.defaults.keys()].flatMap((section) =>
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
    const shipped = this.#sources.defaults.get(canonicalSection(section))?.keys() ?? []
    return new Set(Array.from(shipped).filter((key) => this.isRemoved(section, key)))
  }

  /** Whether a default was removed. */
  isRemoved(section: string, key: string): boolean {
    return this.get(section, key) === undefined && this.#shipped(section, key) !== undefined
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
      for (const guard of this.#guards) await guard({ section: name, key, value: this.#shipped(name, key) })
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
      this.#changed = withSetting(this.#changed, section, key, value)
      this.#passing = withoutSetting(this.#passing, section, key)
    } else {
      this.#passing = withSetting(this.#passing, section, key, value)
    }
    this.#setEffective(this.#merged())
    const change = { section, key, value: this.get(section, key) }
    for (const listener of this.#listeners) await listener(change)
    return before
  }

  /** A removal is only written down where there is something to remove. */
  async #store(section: string, key: string, value: string | null): Promise<void> {
    const isElsewhere = (layers: readonly SettingMap[]) => layers.some((layer) => layer.get(section)?.has(key))
    const { defaults, stored } = this.#sources
    const store = isShared(section, key) ? this.#sharedStore : undefined
    if (store) {
      const layers = [defaults, this.#files, this.#stored, this.#environment, this.#flags]
      const entry = value === null && !isElsewhere(layers) ? undefined : value
      await store.change(section, key, entry)
      this.#shared = withEntry(this.#shared ?? NONE, section, key, entry)
      return
    }
    const entry = value === null && !isElsewhere([defaults, this.#files]) ? undefined : value
    const settings = withEntry(this.#stored, section, key, entry)
    await stored.save(settings)
    this.#stored = settings
  }

  /** Resolves when what other servers have changed so far counts here. While the engine cannot be reached it tries again. */
  #followShared(store: SharedSettings): Promise<void> {
    this.#isSharedDue = true
    this.#sharedReading ??= this.#readSharedWhileDue(store)
    return this.#sharedReading
  }

  async #readSharedWhileDue(store: SharedSettings): Promise<void> {
    while (this.#isSharedDue && this.#sharedStore === store) {
      this.#isSharedDue = false
      try {
        await this.#inTurn(() => this.#readShared(store))
      } catch {
        this.#isSharedDue = true
        await pause(RETRY_MS, undefined, { ref: false })
      }
    }
    // At once: a later signal starts a new loop.
    this.#sharedReading = undefined
  }

  /** Applies what other servers have changed. */
  async #readShared(store: SharedSettings): Promise<void> {
    const after = usable(await store.load())
    const before = this.#effective
    for (const [section, key] of changedEntries(this.#shared ?? NONE, after)) {
      // An entry that is gone is a removal, whichever layer the setting comes from here.
      const value = after.get(section)?.get(key) ?? null
      this.#changed = withSetting(this.#changed, section, key, value)
      this.#passing = withoutSetting(this.#passing, section, key)
    }
    this.#shared = after
    this.#setEffective(this.#merged())
    await this.#notify(before)
  }

  async #notify(before: EffectiveSettings): Promise<void> {
    for (const change of differences(before, this.#effective)) {
      for (const listener of this.#listeners) await listener(change)
    }
  }

  #merged({ files = this.#files, stored = this.#stored, passing = this.#passing } = {}) {
    const { defaults } = this.#sources
    const atStart = [defaults, files, stored, this.#shared ?? NONE, this.#environment, this.#flags]
    return mergedSettings([...atStart, this.#changed, passing])
  }

  #shipped(section: string, key: string): string | undefined {
    return this.#sources.defaults.get(canonicalSection(section))?.get(key) ?? undefined
  }

  async #protected(value: string, { isPlainPassword = false }: ChangeOptions): Promise<string> {
    return this.#adminHashes?.protect(value, isPlainPassword) ?? value
  }

  /** Replaces the plain passwords in the operator's files, each in its line. */
  async #hashAdminsOf(files: readonly OperatorFile[], hashes: AdminHashes): Promise<void> {
    for (const { path, settings } of files) {
      for (const [name, hash] of await hashes.hashesFor(settings)) {
        await this.#saved(async () => this.#sources.files?.replace(path, ADMINS, name, hash))
        this.#files = withSetting(this.#files, ADMINS, name, hash)
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
    const before = this.#shared
    const result = await this.#inTurn(change)
    if (this.#shared !== before) await this.#sharedStore?.confirm()
    return result
  }

  /** One change after the other, whether the previous one failed or not. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => {})
    return done
  }
}

/** Several files as one layer: a removal in a later file also removes the setting from the layers below. */
function mergedLayer(files: readonly SettingMap[]): SettingMap {
  let merged: SettingMap = new Map()
  for (const [section, keys] of files.flatMap((file) => [...file])) {
    for (const [key, value] of keys) merged = withSetting(merged, section, key, value)
  }
  return merged
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

function withEntry(settings: SettingMap, section: string, key: string, value: SharedValue): SettingMap {
  return value === undefined ? withoutSetting(settings, section, key) : withSetting(settings, section, key, value)
}

/** Without what this release cannot work with: a server of another release may have set it. */
function usable(settings: SettingMap): SettingMap {
  let result = settings
  for (const [section, keys] of settings) {
    for (const [key, value] of keys) {
      if (value !== null && problemWith(section, key, value) !== undefined)
        result = withoutSetting(result, section, key)
    }
  }
  return result
}

function changedEntries(before: SettingMap, after: SettingMap): [section: string, key: string][] {
  const names = [before, after].flatMap((settings) =>
    [...settings].flatMap(([section, keys]) => [...keys.keys()].map((key): [string, string] => [section, key])),
  )
  return names.filter(([section, key]) => before.get(section)?.get(key) !== after.get(section)?.get(key))
}

type EffectiveSettings = ReadonlyMap<string, ReadonlyMap<string, string>>

function differences(before: EffectiveSettings, after: EffectiveSettings): SettingChange[] {
  const changes: SettingChange[] = []
  for (const section of new Set([...before.keys(), ...after.keys()])) {
    const keys = new Set([...(before.get(section)?.keys() ?? []), ...(after.get(section)?.keys() ?? [])])
    for (const key of keys) {
      const value = after.get(section)?.get(key)
      if (value !== before.get(section)?.get(key)) changes.push({ section, key, value })
    }
  }
  return changes
}

function checkAll(settings: EffectiveSettings): void {
  for (const [section, keys] of settings) {
    for (const [key, value] of keys) {
      const problem = problemWith(section, key, value)
      if (problem !== undefined) throw new SettingError(problem)
    }
  }
}
