/** The defaults that ship with the package. */
import { readFile } from 'node:fs/promises'
import { parseSettings, type SettingMap } from './setting-map.ts'

const DEFAULT_FILE = new URL('../../etc/default.ini', import.meta.url)

export async function defaultSettings(): Promise<SettingMap> {
  return parseSettings(await readFile(DEFAULT_FILE, 'utf8'))
}
