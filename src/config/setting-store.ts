/** Where settings that were changed at run time are kept: apart from the operator's own files, which stay untouched. */
import { open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { formatSettings, parseSettings, type SettingMap } from './setting-map.ts'

export interface SettingStore {
  load(): Promise<SettingMap>
  save(settings: SettingMap): Promise<void>
}

export class SettingFile implements SettingStore {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  async load(): Promise<SettingMap> {
    try {
      return parseSettings(await readFile(this.#path, 'utf8'))
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return new Map()
      throw error
    }
  }

  /** Written beside and renamed: after a crash the file is the old one or the new one, never half of it. */
  async save(settings: SettingMap): Promise<void> {
    const unfinished = `${this.#path}.new`
    const file = await open(unfinished, 'w', 0o600)
    try {
      await file.writeFile(`; Changed at run time. Rewritten by the server.\n\n${formatSettings(settings)}`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, this.#path)
    const folder = await open(dirname(this.#path), 'r')
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
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
