/**
 * The format of a data folder, a number in its file `format`. A folder of an older format is brought up to date in
 * place, one step after the other; one of a later format is refused, since this release would read it wrong.
 *
 * The format changes when a release before could not read what this one writes: rows of databases, names of files.
 * Indexes have a format of their own and are rebuilt. Each migration step is kept, with a folder of its format in
 * `test/formats`.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DataFolderError } from '../storage-error.ts'
import { flush } from './store-file.ts'

export const FORMAT_VERSION = 1

const FORMAT_FILE = 'format'
const FORMAT_TEXT = /^settle data folder, format (\d+)\n$/

/**
 * Brings a folder from one format to the next. It may be interrupted and is then done again: it must be able to meet what it
 * has done already. The folder is locked.
 */
export type UpgradeStep = (folder: string) => Promise<void>

export interface Formats {
  /** What this release writes. */
  readonly version: number
  /** The oldest that it can bring up to date. */
  readonly oldest: number
  /** By the format that they begin with. */
  readonly steps: ReadonlyMap<number, UpgradeStep>
}

const FORMATS: Formats = { version: FORMAT_VERSION, oldest: 1, steps: new Map() }

/** The format of the folder; undefined where it has none yet. Throws `DataFolderError`, a sentence for people. */
export async function readFormat(folder: string): Promise<number | undefined> {
  const path = join(folder, FORMAT_FILE)
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new DataFolderError(`The data folder ${folder} cannot be read: ${error.message}`)
  })
  if (text === undefined) return undefined
  const [, version] = FORMAT_TEXT.exec(text) ?? []
  if (version === undefined) throw new DataFolderError(`The file ${path} is not one of this server.`)
  return Number(version)
}

/** Throws `DataFolderError` where this release cannot use the folder as it is. */
export function checkFormat(folder: string, format: number, { version, oldest }: Formats = FORMATS): void {
  const has = `The data folder ${folder} has format ${format}`
  if (format > version) {
    throw new DataFolderError(
      `${has}; this release reads formats up to ${version}. It was written by a later release: use that one, or restore a backup.`,
    )
  }
  if (format < oldest) {
    throw new DataFolderError(
      `${has}; this release brings formats from ${oldest} on up to date. Start a release in between first, or restore a backup.`,
    )
  }
}

/** Gives a new folder its format, and brings an older one up to date. */
export async function bringUpToDate(folder: string, formats: Formats = FORMATS): Promise<void> {
  const format = await readFormat(folder)
  if (format === undefined) {
    await writeFormat(folder, formats.version)
    return
  }
  checkFormat(folder, format, formats)
  for (let from = format; from < formats.version; from++) {
    const step = formats.steps.get(from)
    if (!step) throw new Error(`There is no step from format ${from}.`)
    await step(folder)
    // After each one: what is done is not done again.
    await writeFormat(folder, from + 1)
  }
}

async function writeFormat(folder: string, version: number): Promise<void> {
  const path = join(folder, FORMAT_FILE)
  await writeFile(`${path}.new`, `settle data folder, format ${version}\n`)
  await flush(`${path}.new`)
  await rename(`${path}.new`, path)
  await flush(folder)
}
