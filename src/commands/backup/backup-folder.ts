/**
 * A folder of backups: settings, and for each database a chain of segments. The first segment of a chain is a full backup, each
 * further one holds what changed since the one before. A chain that was replaced (`--full`, or a new database of the same name)
 * stays until the operator removes it. The chain with the highest number counts.
 */
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject } from '../../encoding/json/json-value.ts'
import { type FolderLock, tryLock } from '../../storage/files/folder-lock.ts'
import { flush, makeFolder, stemOf } from '../../storage/files/store-file.ts'
import { CommandError, messageOf } from '../command-error.ts'
import { Chain } from './chain.ts'
import { replaceFile } from './replace-file.ts'

const ABOUT = 'settle-backup.json'
const SETTINGS = 'settings.json'
const DATABASES = 'databases'
const LOCK = 'lock'

const FOLDER_FORMAT = 1

/** The record of the last complete run. */
export interface AboutBackup {
  readonly format: number
  /** Of the server. */
  readonly uuid: string
  readonly version: string
  /** The databases of the server at that time. */
  readonly databases: readonly string[]
  readonly finished: string
}

export class BackupFolder {
  readonly path: string
  /** Held while writing. */
  #lock: FolderLock | undefined

  /** Creates the folder if need be, and locks it against other writers. */
  static async openForWriting(path: string): Promise<BackupFolder> {
    try {
      await makeFolder(path)
      const folder = new BackupFolder(path)
      await folder.#check({ mayBeEmpty: true })
      await makeFolder(join(path, DATABASES))
      folder.#lock = tryLock(path, LOCK)
      if (!folder.#lock) throw new CommandError(`Another backup is writing to ${path}.`)
      return folder
    } catch (error) {
      if (error instanceof CommandError) throw error
      throw new CommandError(`The folder ${path} cannot be written: ${messageOf(error)}`)
    }
  }

  static async openForReading(path: string): Promise<BackupFolder> {
    const folder = new BackupFolder(path)
    await folder.#check({ mayBeEmpty: false })
    return folder
  }

  private constructor(path: string) {
    this.path = path
  }

  close(): void {
    this.#lock?.release()
  }

  async about(): Promise<AboutBackup | undefined> {
    const text = await readFile(join(this.path, ABOUT), 'utf8').catch(() => undefined)
    const value: unknown = text === undefined ? undefined : parsed(text)
    return isAbout(value) ? value : undefined
  }

  async writeAbout(about: Omit<AboutBackup, 'format'>): Promise<void> {
    await replaceFile(this.path, ABOUT, `${JSON.stringify({ format: FOLDER_FORMAT, ...about }, null, 2)}\n`)
  }

  /** They may hold hashes of passwords: only the owner may read them. */
  async writeSettings(settings: unknown): Promise<void> {
    await replaceFile(this.path, SETTINGS, `${JSON.stringify(settings, null, 2)}\n`, 0o600)
  }

  async settings(): Promise<unknown> {
    const text = await readFile(join(this.path, SETTINGS), 'utf8').catch(() => undefined)
    return text === undefined ? undefined : parsed(text)
  }

  /** All chains, those of one database from the oldest to the newest. */
  async chains(): Promise<Chain[]> {
    const names = (await this.#chainNames()).toSorted((a, b) => a.stem.localeCompare(b.stem) || a.number - b.number)
    const chains = await Promise.all(names.map(({ stem, number }) => Chain.read(this.#chainPath(stem, number))))
    return chains.flatMap((chain) => chain ?? [])
  }

  /** The newest chain of a database. */
  async chainOf(database: string): Promise<Chain | undefined> {
    const number = await this.#lastNumber(database)
    return number === 0 ? undefined : Chain.read(this.#chainPath(stemOf(database), number))
  }

  async newChain(database: string): Promise<Chain> {
    const path = this.#chainPath(stemOf(database), (await this.#lastNumber(database)) + 1)
    await mkdir(path)
    await flush(join(this.path, DATABASES))
    return Chain.empty(path)
  }

  async #lastNumber(database: string): Promise<number> {
    const stem = stemOf(database)
    const names = (await this.#chainNames()).filter((each) => each.stem === stem)
    return Math.max(0, ...names.map(({ number }) => number))
  }

  async #chainNames(): Promise<{ stem: string; number: number }[]> {
    const names = await readdir(join(this.path, DATABASES)).catch(() => [])
    return names.flatMap((name) => {
      const [, stem, number] = /^(.+)\.(\d+)$/.exec(name) ?? []
      return stem === undefined ? [] : [{ stem, number: Number(number) }]
    })
  }

  #chainPath(stem: string, number: number): string {
    return join(this.path, DATABASES, `${stem}.${number}`)
  }

  /** Refuses a folder of something else, and one of a later release. */
  async #check({ mayBeEmpty }: { readonly mayBeEmpty: boolean }): Promise<void> {
    const names = await readdir(this.path).catch((error: unknown) => {
      throw new CommandError(`The folder ${this.path} cannot be read: ${messageOf(error)}`)
    })
    const isBackup = names.includes(ABOUT) || names.includes(DATABASES)
    if (!isBackup && !(mayBeEmpty && names.length === 0))
      throw new CommandError(`${this.path} is not a folder of Settle backups.`)
    const text = await readFile(join(this.path, ABOUT), 'utf8').catch(() => undefined)
    if (text === undefined) return
    const value = parsed(text)
    if (!isObject(value) || typeof value.format !== 'number')
      throw new CommandError(`${join(this.path, ABOUT)} is damaged.`)
    if (value.format <= FOLDER_FORMAT) return
    throw new CommandError(
      `The backups in ${this.path} have format ${value.format}; this release reads formats up to ${FOLDER_FORMAT}. Use a newer release.`,
    )
  }
}

function isAbout(value: unknown): value is AboutBackup {
  return isObject(value) && Array.isArray(value.databases) && typeof value.uuid === 'string'
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
