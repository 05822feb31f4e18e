/**
 * How stores lie in their folder: `<name>.<generation>.mdb`, the name escaped. A generation is given out once and
 * never again, so a path always means the same file; of two generations of a store the higher one counts, since a
 * file gets its name only when it is whole and on disk.
 */
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { StoreNameError } from './storage-error.ts'

export interface StoreFile {
  readonly name: string
  readonly generation: number
}

/** Leaves room for the generation and the endings within the 255 bytes that file systems allow. */
const NAME_BYTES_LIMIT = 220

const FILE_NAME = /^(.+)\.(\d+)\.mdb$/

export function storeFileName({ name, generation }: StoreFile): string {
  return `${escapeName(name)}.${generation}.mdb`
}

export function parseStoreFileName(fileName: string): StoreFile | undefined {
  const [, escaped, generation] = FILE_NAME.exec(fileName) ?? []
  if (escaped === undefined || generation === undefined) return undefined
  return { name: unescapeName(escaped), generation: Number(generation) }
}

/** The name of the store that the file holds. */
export function storeOfPath(path: string): string | undefined {
  return parseStoreFileName(basename(path))?.name
}

/** The file that is still being written; it is none of the folder's stores before it is renamed. */
export function unfinishedPath(path: string): string {
  return `${path}.new`
}

/** A file that says why another one is not used. Who removes it has the other one used again. */
export function asidePath(path: string): string {
  return `${path}${ASIDE_ENDING}`
}

export const ASIDE_ENDING = '.set-aside'

export function lockPath(path: string): string {
  return `${path}-lock`
}

/** Gives the finished file its name. Both its bytes and its name are on disk afterwards. */
export async function publish(unfinished: string, path: string): Promise<void> {
  await flush(unfinished)
  await rename(unfinished, path)
  try {
    await flush(dirname(path))
  } catch (error) {
    // Nobody will use it, and yet the next start would take it for the newest state of the store.
    await rm(path, { force: true })
    throw error
  }
}

/**
 * Makes the folder if need be, and those above it; their names are on disk afterwards, or else a power cut could take
 * the folder with all that was flushed inside it.
 */
export async function makeFolder(folder: string): Promise<void> {
  const path = resolve(folder)
  const first = await mkdir(path, { recursive: true })
  if (first === undefined) {
    // Whoever made it may have crashed right then. If it is not ours to open, neither was it ours to make.
    await flush(dirname(path)).catch(() => {})
    return
  }
  for (let made = path; made.length >= first.length; made = dirname(made)) await flush(dirname(made))
}

/** Makes a file's bytes, or a folder's names, durable. */
export async function flush(path: string): Promise<void> {
  const handle: FileHandle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export function checkStoreName(name: string): void {
  if (name === '') throw new StoreNameError('The name of a store is not empty.')
  if (escapeName(name).length > NAME_BYTES_LIMIT)
    throw new StoreNameError(
      `The name '${name.slice(0, 80)}…' is too long: it takes more than ${NAME_BYTES_LIMIT} bytes as the name of a file, where / and others take three.`,
    )
}

export function storePath(folder: string, file: StoreFile): string {
  return join(folder, storeFileName(file))
}

/** Capital letters are escaped as well, so that names stay apart on a file system that ignores case. */
export function escapeName(name: string): string {
  return name.replace(/[^a-z0-9_$()+-]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )
}

function unescapeName(escaped: string): string {
  return decodeURIComponent(escaped)
}
