/**
 * File names of stores: `<stem>.<generation>.mdb`. The stem is the escaped name of the store, or a digest of a long one
 * (`long-names.ts`). A generation is used once, so a path always means the same file. Of two generations of a store the higher
 * one counts, since a file gets its name only when it is complete and on disk.
 */
import { hash } from 'node:crypto'
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { StoreNameError } from '../storage-error.ts'

export interface StoreFile {
  readonly stem: string
  readonly generation: number
}

/** Leaves room for the generation and the endings within the 255 bytes that file systems allow. */
const STEM_BYTES = 220

/** Room for the longest name of a database and what an index adds to it. */
const NAME_BYTES = 2_000

/** No escaped name begins so: the character is escaped itself. */
const DIGEST_MARK = '~'
const DIGEST_STEM = /^~[0-9a-f]{64}$/

const FILE_NAME = /^(.+)\.(\d+)\.mdb$/

/** What the names of all files of a store begin with. Two stores differ in it, also where case is ignored. */
export function stemOf(name: string): string {
  const escaped = escapeName(name)
  return escaped.length <= STEM_BYTES ? escaped : DIGEST_MARK + hash('sha256', name)
}

export function isDigest(stem: string): boolean {
  return DIGEST_STEM.test(stem)
}

/** The store with this stem; undefined if the stem is a digest, or not valid. */
export function nameOfStem(stem: string): string | undefined {
  try {
    const name = decodeURIComponent(stem)
    return stemOf(name) === stem ? name : undefined
  } catch {
    return undefined
  }
}

/** Undefined for files that do not belong to a store. */
export function parseStoreFileName(fileName: string): StoreFile | undefined {
  const [, stem, generation] = FILE_NAME.exec(fileName) ?? []
  if (stem === undefined || generation === undefined) return undefined
  if (!isDigest(stem) && nameOfStem(stem) === undefined) return undefined
  return { stem, generation: Number(generation) }
}

/** Whether the file holds the store, in this or another generation. */
export function isFileOf(path: string, name: string): boolean {
  return parseStoreFileName(basename(path))?.stem === stemOf(name)
}

/** A file that is still being written; it does not count as a store before it is renamed. */
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
    // Otherwise the next start would take it for the newest generation.
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
  if (Buffer.byteLength(name) > NAME_BYTES)
    throw new StoreNameError(
      `The name '${name.slice(0, 80)}…' is too long: a store has at most ${NAME_BYTES} bytes of it.`,
    )
}

export function storePath(folder: string, { stem, generation }: StoreFile): string {
  return join(folder, `${stem}.${generation}.mdb`)
}

/** Capital letters are escaped as well, so that names stay apart on a file system that ignores case. */
function escapeName(name: string): string {
  return name.replace(/[^a-z0-9_$()+-]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )
}

/** Paths for new files of a folder. Each generation is given out once. */
export class StorePaths {
  readonly #folder: string
  #generation: number

  /** This generation and those below are taken. */
  constructor(folder: string, generation: number) {
    this.#folder = folder
    this.#generation = generation
  }

  next(name: string): string {
    this.#generation++
    return storePath(this.#folder, { stem: stemOf(name), generation: this.#generation })
  }
}
