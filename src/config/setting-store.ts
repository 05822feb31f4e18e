/** Where settings that were changed at run time are kept: apart from the operator's own files. */
import { readFile } from 'node:fs/promises'
import { parseIni } from './ini-text.ts'
import type { SettingMap } from './setting-map.ts'
import { writeWhole } from './whole-file.ts'

export interface SettingStore {
  load(): Promise<SettingMap>
  /** On disk when it resolves. */
  save(settings: SettingMap): Promise<void>
}

export class SettingFile implements SettingStore {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  async load(): Promise<SettingMap> {
    try {
      return unquoted(parseIni(await readFile(this.#path, 'utf8')))
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return new Map()
      throw error
    }
  }

  async save(settings: SettingMap): Promise<void> {
    await writeWhole(this.#path, `; Changed at run time. Rewritten by the server.\n${formatted(settings)}`)
  }
}

/** For a server that leaves nothing behind. */
export class SettingMemory implements SettingStore {
  #settings: SettingMap = new Map()

  async load(): Promise<SettingMap> {
    return this.#settings
  }

  async save(settings: SettingMap): Promise<void> {
    this.#settings = settings
  }
}

function formatted(settings: SettingMap): string {
  const lines: string[] = []
  for (const [section, keys] of settings) {
    lines.push('', `[${section}]`)
    for (const [key, value] of keys) lines.push(value === null ? `${key} =` : `${key} = ${quoted(value)}`)
  }
  return `${lines.join('\n')}\n`
}

/** A value that the format would not give back as it is becomes a JSON string. */
function quoted(value: string): string {
  if (value === value.trim() && /^[^";][^;\p{Cc}]*$/u.test(value)) return value
  return JSON.stringify(value).replaceAll(';', '\\u003b')
}

function unquoted(settings: SettingMap): SettingMap {
  const plain = (value: string | null) => (value?.startsWith('"') ? unquotedText(value) : value)
  return new Map(
    [...settings].map(([section, keys]) => [section, new Map([...keys].map(([key, value]) => [key, plain(value)]))]),
  )
}

/** What somebody wrote there by hand may be no JSON. */
function unquotedText(value: string): string {
  try {
    return String(JSON.parse(value))
  } catch {
    return value
  }
}
