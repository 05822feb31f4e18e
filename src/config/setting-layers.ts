/**
 * The layers that settings come from, and what counts of them: a setting of a higher layer replaces that of a lower one, and may
 * remove it. Layers are replaced, never changed.
 */
import { mergedSettings, type SettingMap, withoutSetting, withSetting } from './ini-text.ts'
import { problemWith, SettingError } from './setting-rules.ts'
import type { SharedValue } from './shared-settings.ts'

/** Where a value comes from, by the names that operators know. */
export type SettingLayer = 'default' | 'file' | 'stored' | 'environment' | 'flag' | 'unsaved'

export interface StartLayers {
  readonly defaults: SettingMap
  readonly environment?: SettingMap
  readonly flags?: SettingMap
}

const NONE: SettingMap = new Map()

/** From the lowest to the highest. */
export class SettingLayers {
  readonly defaults: SettingMap
  files = NONE
  stored = NONE
  /** What any of the servers on one engine changed, as of the last time that it was read. */
  shared: SettingMap | undefined
  environment: SettingMap
  flags: SettingMap
  /** What was changed and stored while this process runs, here or in another server: it was asked for later than the flags. */
  changed = NONE
  /** What this process changed and did not store. */
  passing = NONE

  constructor({ defaults, environment = NONE, flags = NONE }: StartLayers) {
    this.defaults = defaults
    this.environment = environment
    this.flags = flags
  }

  /** What counts, or would with other layers. */
  merged({ files = this.files, stored = this.stored, passing = this.passing } = {}): EffectiveSettings {
    const atStart = [this.defaults, files, stored, this.shared ?? NONE, this.environment, this.flags]
    return mergedSettings([...atStart, this.changed, passing])
  }

  /** As the files of the operator and this start have it: without anything that was changed at run time. */
  atStart(): EffectiveSettings {
    return mergedSettings([this.defaults, this.files, this.environment, this.flags])
  }

  /** The default of a setting. */
  shipped(section: string, key: string): string | undefined {
    return this.defaults.get(section)?.get(key) ?? undefined
  }

  /** A change at run time counts above everything before it. */
  change(section: string, key: string, value: string | null): void {
    this.changed = withSetting(this.changed, section, key, value)
    this.passing = withoutSetting(this.passing, section, key)
  }

  /** The same for a change that is not stored. */
  changeUnsaved(section: string, key: string, value: string | null): void {
    this.passing = withSetting(this.passing, section, key, value)
  }

  /** What servers share counts above what was changed here before. */
  beginSharing(settings: SettingMap): void {
    this.shared = usable(settings)
    for (const [section, key] of changedEntries(NONE, this.shared)) {
      this.changed = withoutSetting(this.changed, section, key)
    }
  }

  /** What other servers changed since it was read last is a change at run time. */
  followShared(settings: SettingMap): void {
    const after = usable(settings)
    for (const [section, key] of changedEntries(this.shared ?? NONE, after)) {
      // An entry that is gone is a removal, whichever layer the setting comes from here.
      this.change(section, key, after.get(section)?.get(key) ?? null)
    }
    this.shared = after
  }

  /** What is stored of a change. A removal is only written down where there is something to remove. */
  entryFor(layer: 'shared' | 'stored', section: string, key: string, value: string | null): SharedValue {
    const { defaults, files, stored, environment, flags } = this
    const others = layer === 'shared' ? [defaults, files, stored, environment, flags] : [defaults, files]
    const isElsewhere = others.some((settings) => settings.get(section)?.has(key))
    return value === null && !isElsewhere ? undefined : value
  }

  /** The layer that a setting comes from. */
  layerOf(section: string, key: string): SettingLayer {
    const layers: readonly (readonly [SettingLayer, SettingMap])[] = [
      ['unsaved', this.passing],
      ['stored', this.changed],
      ['flag', this.flags],
      ['environment', this.environment],
      ['stored', this.shared ?? NONE],
      ['stored', this.stored],
      ['file', this.files],
    ]
    return layers.find(([, settings]) => settings.get(section)?.has(key))?.[0] ?? 'default'
  }
}

export interface SettingChange {
  readonly section: string
  readonly key: string
  /** The new value; undefined when the setting is removed. */
  readonly value: string | undefined
}

/** Several files as one layer: a removal in a later file also removes the setting from the layers below. */
export function mergedLayer(files: readonly SettingMap[]): SettingMap {
  let merged: SettingMap = new Map()
  for (const [section, keys] of files.flatMap((file) => [...file])) {
    for (const [key, value] of keys) merged = withSetting(merged, section, key, value)
  }
  return merged
}

export function withEntry(
  settings: SettingMap | undefined,
  section: string,
  key: string,
  value: SharedValue,
): SettingMap {
  const before = settings ?? NONE
  return value === undefined ? withoutSetting(before, section, key) : withSetting(before, section, key, value)
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

export type EffectiveSettings = ReadonlyMap<string, ReadonlyMap<string, string>>

export function differences(before: EffectiveSettings, after: EffectiveSettings): SettingChange[] {
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

export function checkAll(settings: EffectiveSettings): void {
  for (const [section, keys] of settings) {
    for (const [key, value] of keys) {
      const problem = problemWith(section, key, value)
      if (problem !== undefined) throw new SettingError(problem)
    }
  }
}
