/**
 * The operator's own files: `local.ini` and those in `local.d/`, later ones in alphabetical order win. They are read and
 * left alone, with one exception: a plain password of an administrator is replaced by its hash, in its line.
 */
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { parseIni, replaceIniValue } from './ini-text.ts'
import type { SettingMap } from './setting-map.ts'
import { writeWhole } from './whole-file.ts'

export interface OperatorFile {
  readonly path: string
  readonly settings: SettingMap
}

export class OperatorFiles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
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
