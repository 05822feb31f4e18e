/**
 * Where settings come from: the shipped defaults, the operator's files, the environment, and the file that keeps what
 * was changed at run time.
 */
import { open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { canonicalSection, parseIni, replaceIniValue, type SettingMap, withSetting } from './ini-text.ts'

export interface SettingStore {
  load(): Promise<SettingMap>
  /** On disk when it resolves. */
  save(settings: SettingMap): Promise<void>
}

/** Settings that were changed at run time, apart from the operator's own files. */
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

  /** Removes what a crash left of it. To be called before all else. */
  async clearUp(): Promise<void> {
    await removeUnfinished(this.#path)
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

/** The file may have been edited by hand and not be JSON. */
function unquotedText(value: string): string {
  try {
    return String(JSON.parse(value))
  } catch {
    return value
  }
}

export interface OperatorFile {
  readonly path: string
  readonly settings: SettingMap
}

/**
 * The operator's own files: `local.ini` and those in `local.d/`, where later ones in alphabetical order win. They are
 * only read, with one exception: a plain password of an administrator is replaced by its hash, in its line.
 */
export class OperatorFiles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Removes what a crash left of a file that was being rewritten: it may hold passwords. To be called before all else. */
  async clearUp(): Promise<void> {
    const further = await readdir(join(this.#folder, 'local.d')).catch(() => [])
    const names = ['local.ini', ...further.map((name) => join('local.d', name.replace(/\.new$/, '')))]
    for (const name of new Set(names)) {
      if (name.endsWith('.ini')) await removeUnfinished(join(this.#folder, name))
    }
  }

  /** In the order in which they count, the last one most. */
  async load(): Promise<OperatorFile[]> {
    const further = (await unlessMissing(readdir(join(this.#folder, 'local.d')))) ?? []
    const names = further.filter((name) => name.endsWith('.ini')).sort()
    const paths = [join(this.#folder, 'local.ini'), ...names.map((name) => join(this.#folder, 'local.d', name))]
    const files: OperatorFile[] = []
    for (const path of paths) {
      const text = await unlessMissing(readFile(path, 'utf8'))
      if (text !== undefined) files.push({ path, settings: parseIni(text) })
    }
    return files
  }

  /** Changes one value in one file, and nothing else of it. */
  async replace(path: string, section: string, key: string, value: string): Promise<void> {
    const { mode } = await stat(path)
    await writeWhole(path, replaceIniValue(await readFile(path, 'utf8'), section, key, value), mode & 0o777)
  }
}

async function unlessMissing<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Replaces a file in one step: after a crash it is the old one or the new one, never half of it. Readable for its owner
 * alone, since settings may be secrets. On disk when it resolves.
 */
export async function writeWhole(path: string, text: string, mode = 0o600): Promise<void> {
  const unfinished = unfinishedPath(path)
  const file = await open(unfinished, 'w', mode)
  try {
    await file.writeFile(text)
    await file.sync()
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  } finally {
    await file.close()
  }
  await rename(unfinished, path)
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

function unfinishedPath(path: string): string {
  return `${path}.new`
}

/** What cannot be removed now goes at a later start. */
async function removeUnfinished(path: string): Promise<void> {
  await rm(unfinishedPath(path), { force: true }).catch(() => {})
}

const DEFAULT_FILE = new URL('../../etc/default.ini', import.meta.url)

/** The defaults that ship with the package. */
export async function defaultSettings(): Promise<SettingMap> {
  return parseIni(await readFile(DEFAULT_FILE, 'utf8'))
}

const NAME = /^SETTLE_([A-Z0-9_]+?)__([A-Z0-9_]+)$/

/**
 * Settings in the environment: `SETTLE_HTTPD__PORT=6000` is `httpd/port`. Only sections and keys in lower case.
 * `SETTLE_ENGINE` is short for `service/engine`. `SETTLE_ENGINES` has entries of `[engines]` with spaces between them, as
 * `orders-*=postgres://… logs=files`: patterns of names have characters that names of variables have not.
 */
export function environmentSettings(environment: Readonly<Record<string, string | undefined>>): SettingMap {
  let settings: SettingMap = new Map()
  const { SETTLE_ENGINE, SETTLE_ENGINES = '' } = environment
  if (SETTLE_ENGINE !== undefined) settings = withSetting(settings, 'service', 'engine', SETTLE_ENGINE || null)
  for (const entry of SETTLE_ENGINES.split(/\s+/).filter((each) => each !== '')) {
    const [pattern = '', ...address] = entry.split('=')
    settings = withSetting(settings, 'engines', pattern, address.join('='))
  }
  for (const [name, value] of Object.entries(environment)) {
    const [, section, key] = NAME.exec(name) ?? []
    if (section === undefined || key === undefined || value === undefined) continue
    settings = withSetting(settings, canonicalSection(section.toLowerCase()), key.toLowerCase(), value || null)
  }
  return settings
}
