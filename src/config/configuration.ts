/**
 * The one place that settings are read from and changed in. Layers on top of each other: the shipped defaults, what
 * was changed at run time and stored, and what the start of this process overrides.
 */
import { canonicalSection, type SettingMap, withSetting } from './setting-map.ts'
import type { SettingStore } from './setting-store.ts'

export interface ConfigurationLayers {
  readonly defaults: SettingMap
  readonly overrides: SettingMap
  readonly stored: SettingStore
}

export interface SettingChange {
  readonly section: string
  readonly key: string
  readonly value: string | undefined
}

export class Configuration {
  readonly #defaults: SettingMap
  readonly #overrides: SettingMap
  readonly #store: SettingStore
  readonly #listeners = new Set<(change: SettingChange) => void>()
  #stored: SettingMap
  #saving: Promise<void> = Promise.resolve()

  static async load(layers: ConfigurationLayers): Promise<Configuration> {
    return new Configuration(layers, await layers.stored.load())
  }

  private constructor({ defaults, overrides, stored: store }: ConfigurationLayers, stored: SettingMap) {
    this.#defaults = defaults
    this.#overrides = overrides
    this.#store = store
    this.#stored = stored
  }

  get(section: string, key: string): string | undefined {
    const name = canonicalSection(section)
    for (const layer of [this.#overrides, this.#stored, this.#defaults]) {
      const value = layer.get(name)?.get(key)
      if (value !== undefined) return value
    }
    return undefined
  }

  /** A setting that has a default. */
  text(section: string, key: string): string {
    const value = this.get(section, key)
    if (value === undefined) throw new Error(`The setting ${section}/${key} has no value.`)
    return value
  }

  integer(section: string, key: string): number {
    const text = this.text(section, key)
    if (!/^\s*-?\d+\s*$/.test(text)) throw new Error(`The setting ${section}/${key} is not an integer: ${text}`)
    return Number(text)
  }

  /** All keys of a section with the values that count. */
  section(section: string): Map<string, string> {
    const name = canonicalSection(section)
    return new Map([this.#defaults, this.#stored, this.#overrides].flatMap((layer) => [...(layer.get(name) ?? [])]))
  }

  /** Changes a setting, or removes the change when the value is undefined; it is on disk when the promise resolves. */
  async set(section: string, key: string, value: string | undefined): Promise<void> {
    const name = canonicalSection(section)
    const save = async () => {
      const changed = withSetting(this.#stored, name, key, value)
      await this.#store.save(changed)
      this.#stored = changed
    }
    const saved = this.#saving.then(save)
    // One after the other; who comes next does not care whether the one before failed.
    this.#saving = saved.catch(() => {})
    await saved
    const change = { section: name, key, value: this.get(name, key) }
    for (const listener of this.#listeners) listener(change)
  }

  /** Calls back after each change that was stored; returns how to stop that. */
  onChange(listener: (change: SettingChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}
