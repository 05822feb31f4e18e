/** The defaults that ship with the package. */
import { readFile } from 'node:fs/promises'
import { parseIni } from './ini-text.ts'
import type { SettingMap } from './setting-map.ts'

const DEFAULT_FILE = new URL('../../etc/default.ini', import.meta.url)

export async function defaultSettings(): Promise<SettingMap> {
  return parseIni(await readFile(DEFAULT_FILE, 'utf8'))
}
