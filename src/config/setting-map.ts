/** Settings as configuration files have them: sections of keys, all values text. */

/** A key that is null takes back what an earlier layer says. */
export type Section = ReadonlyMap<string, string | null>
export type SettingMap = ReadonlyMap<string, Section>

/** A copy in which one key has another value. */
export function withSetting(settings: SettingMap, section: string, key: string, value: string | null): SettingMap {
  return new Map(settings).set(section, new Map(settings.get(section)).set(key, value))
}

/** A copy that says nothing about one key. */
export function withoutSetting(settings: SettingMap, section: string, key: string): SettingMap {
  const keys = new Map(settings.get(section))
  keys.delete(key)
  const result = new Map(settings).set(section, keys)
  if (keys.size === 0) result.delete(section)
  return result
}

/** What counts when each layer wins over those before it. */
export function mergedSettings(layers: readonly SettingMap[]): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const merged = new Map<string, Map<string, string>>()
  for (const [section, keys] of layers.flatMap((layer) => [...layer])) {
    const known = merged.get(section) ?? new Map<string, string>()
    merged.set(section, known)
    for (const [key, value] of keys) {
      if (value === null) known.delete(key)
      else known.set(key, value)
    }
  }
  return merged
}

/** Sections are known by neutral names; the names that the family uses mean the same ones. */
export function canonicalSection(name: string): string {
  if (name === 'couchdb') return 'service'
  if (name === 'service_http_auth') return 'service_httpd_auth'
  return name.startsWith('couch_') ? canonicalSection(`service_${name.slice('couch_'.length)}`) : name
}
