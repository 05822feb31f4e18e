/** Settings as configuration files have them: sections of keys, all values text. */
import { parse, stringify } from 'ini'

export type Section = ReadonlyMap<string, string>
export type SettingMap = ReadonlyMap<string, Section>

export function parseSettings(text: string): SettingMap {
  const sections = new Map<string, Section>()
  for (const [name, section] of Object.entries(parse(text))) {
    if (typeof section !== 'object' || section === null) continue
    sections.set(canonicalSection(name), new Map(Object.entries(section).map(([key, value]) => [key, String(value)])))
  }
  return sections
}

export function formatSettings(settings: SettingMap): string {
  return stringify(Object.fromEntries([...settings].map(([name, section]) => [name, Object.fromEntries(section)])), {
    whitespace: true,
  })
}

/** A copy in which one key has another value, or is gone when the value is undefined. */
export function withSetting(settings: SettingMap, section: string, key: string, value: string | undefined): SettingMap {
  const changed = new Map(settings.get(section))
  if (value === undefined) changed.delete(key)
  else changed.set(key, value)
  const result = new Map(settings)
  if (changed.size > 0) result.set(section, changed)
  else result.delete(section)
  return result
}

/** Sections are known by neutral names; the names that the family uses mean the same ones. */
export function canonicalSection(name: string): string {
  if (name === 'couchdb') return 'service'
  return name.startsWith('couch_') ? `service_${name.slice('couch_'.length)}` : name
}
