/** Settings in the environment: `SETTLE_HTTPD__PORT=6000` is `httpd/port`. Sections and keys in lower case alone. */
import { canonicalSection, type SettingMap, withSetting } from './setting-map.ts'

const NAME = /^SETTLE_([A-Z0-9_]+?)__([A-Z0-9_]+)$/

export function environmentSettings(environment: Readonly<Record<string, string | undefined>>): SettingMap {
  let settings: SettingMap = new Map()
  for (const [name, value] of Object.entries(environment)) {
    const [, section, key] = NAME.exec(name) ?? []
    if (section === undefined || key === undefined || value === undefined) continue
    settings = withSetting(settings, canonicalSection(section.toLowerCase()), key.toLowerCase(), value || null)
  }
  return settings
}
