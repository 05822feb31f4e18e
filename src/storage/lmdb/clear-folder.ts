/**
 * Cleans up a folder of stores at the start. A crash leaves unfinished and outdated files: they are removed before any file is
 * opened. The folder must not be in use by another process. What cannot be removed stays until the next start: a file system
 * that has become read-only does not prevent reading.
 */
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { inspectFile } from '../file-check/inspect-file.ts'
import { unlessReadOnly } from '../files/file-failures.ts'
import { lockPath, parseStoreFileName, type StoreFile, storePath } from '../files/store-file.ts'

/** Files that are on their way out, until their last reader is done. */
export const TRASH = '.trash'

/** Files of stores that are no part of them. */
const SCRATCH = '.scratch'

/** Removes what is no store any more, or never became one; returns the files that count. */
export async function clearUp(folder: string): Promise<StoreFile[]> {
  await unlessReadOnly(async () => {
    await rm(join(folder, TRASH), { recursive: true, force: true })
    await mkdir(join(folder, TRASH))
  })
  const newest = new Map<string, StoreFile>()
  const older: StoreFile[] = []
  const fileNames = await readdir(folder)
  for (const fileName of fileNames) {
    const file = parseStoreFileName(fileName)
    if (!file) continue
    const rival = newest.get(file.stem)
    if (!rival || rival.generation < file.generation) newest.set(file.stem, file)
    if (rival) older.push(rival.generation < file.generation ? rival : file)
  }
  const leftovers: string[] = []
  const kept: string[] = []
  for (const file of older) {
    const path = storePath(folder, file)
    if (isSound(folder, newest.get(file.stem))) leftovers.push(path)
    // Where the newest file of a store is damaged, an operator may want the one before. Under its own name it would be
    // the store again as soon as the damaged one is deleted.
    else kept.push(path)
  }
  const present = new Set(fileNames)
  for (const fileName of fileNames) {
    if (/\.mdb\.new(-lock)?$/.test(fileName)) leftovers.push(join(folder, fileName))
    else if (fileName.endsWith('.mdb-lock')) {
      const path = join(folder, fileName)
      if (!present.has(fileName.slice(0, -'-lock'.length)) || (await hasHoles(path))) leftovers.push(path)
    }
  }
  await unlessReadOnly(async () => {
    for (const path of leftovers) {
      await rm(path, { force: true })
      if (path.endsWith('.mdb')) await rm(lockPath(path), { force: true })
    }
    for (const path of kept) {
      await rename(path, `${path}.older`)
      await rm(lockPath(path), { force: true })
    }
  })
  return [...newest.values()]
}

function isSound(folder: string, file: StoreFile | undefined): boolean {
  try {
    if (file) inspectFile(storePath(folder, file))
    return true
  } catch {
    return false
  }
}

/** Where scratch files are that are meant for the next generation of a store's file. */
export function scratchPath(folder: string, path: string): string {
  return join(folder, SCRATCH, basename(path, '.mdb'))
}

/**
 * Removes scratch files, except those of these store files: others belong to stores that are gone or were rewritten.
 */
export async function clearScratch(folder: string, files: readonly StoreFile[]): Promise<void> {
  const kept = new Set(files.map((file) => basename(scratchPath(folder, storePath(folder, file)))))
  await removeScratch(folder, (name) => !kept.has(name))
}

/** Removes the scratch files of a store, of whichever generation. */
export async function removeScratchOf(folder: string, stem: string): Promise<void> {
  await removeScratch(folder, (name) => parseStoreFileName(`${name}.mdb`)?.stem === stem)
}

async function removeScratch(folder: string, isRemoved: (name: string) => boolean): Promise<void> {
  const scratch = join(folder, SCRATCH)
  for (const name of await readdir(scratch).catch(() => [])) {
    if (isRemoved(name)) await unlessReadOnly(() => rm(join(scratch, name), { recursive: true, force: true }))
  }
}

/** A power cut can leave a lock without its bytes; opened on a full disk, it would end the process. */
async function hasHoles(path: string): Promise<boolean> {
  const { size, blocks } = await stat(path)
  return blocks * 512 < size
}
