/**
 * Settings as configuration files have them, sections of keys, all values text; and the text of these files, as the
 * family writes them: `[section]`, `key = value`, comments after a semicolon, a line that begins with one blank continues
 * the value before, and `key =` takes back what an earlier file said.
 */

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

/** Sections have neutral names; CouchDB's names are aliases. */
export function canonicalSection(name: string): string {
  if (name === 'couchdb') return 'service'
  if (name === 'service_http_auth') return 'service_httpd_auth'
  return name.startsWith('couch_') ? canonicalSection(`service_${name.slice('couch_'.length)}`) : name
}

/** Of a key that comes twice the last one counts; a key without a value is null. */
export function parseIni(text: string): SettingMap {
  const settings = new Map<string, Map<string, string | null>>()
  for (const { section, key, value } of entriesOf(text.split(LINE_END))) {
    const keys = settings.get(section) ?? new Map<string, string | null>()
    settings.set(section, keys.set(key, value === '' ? null : value))
  }
  return settings
}

/** The same text with another value for a key that it has; comments, order and everything else stay. */
export function replaceIniValue(text: string, section: string, key: string, value: string): string {
  const lines = text.split(/(?<=\n)/)
  const entry = entriesOf(lines.map((line) => line.replace(/\r?\n$/, '')))
    .filter((each) => each.section === section && each.key === key)
    .at(-1)
  const line = entry && lines[entry.firstLine]
  if (!entry || line === undefined) return text
  const [, before = '', rest = '', end = ''] = /^([^=]*=[ \t]*)(.*?)(\r?\n?)$/s.exec(line) ?? []
  const comment = TRAILING_COMMENT.exec(rest)?.[0] ?? ''
  lines.splice(entry.firstLine, entry.lastLine - entry.firstLine + 1, before + value + comment + end)
  return lines.join('')
}

const LINE_END = /\r?\n/
const TRAILING_COMMENT = /[ \t];.*$/s

interface Entry {
  readonly section: string
  readonly key: string
  value: string
  readonly firstLine: number
  lastLine: number
}

function entriesOf(lines: readonly string[]): Entry[] {
  const entries: Entry[] = []
  let section = ''
  let last: Entry | undefined
  for (const [number, line] of lines.entries()) {
    const [, name] = /^\[([^\]]*)\]\s*$/.exec(line) ?? []
    if (line.startsWith(';') || line.trim() === '') continue
    if (name !== undefined) {
      section = canonicalSection(name.trim())
      last = undefined
    } else if (/^[ \t]\S/.test(line)) {
      if (!last) continue
      last.value = `${last.value} ${withoutComment(line)}`.trim()
      last.lastLine = number
    } else {
      const middle = line.indexOf('=')
      if (middle < 0 || line.slice(0, middle).trim() === '') continue
      const value = withoutComment(line.slice(middle + 1))
      last = { section, key: line.slice(0, middle).trim(), value, firstLine: number, lastLine: number }
      entries.push(last)
    }
  }
  return entries
}

function withoutComment(text: string): string {
  return text.replace(TRAILING_COMMENT, '').trim()
}
