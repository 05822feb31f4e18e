/** The stores of a folder that another process may use, found without changing anything in it. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { asidePath, isDigest, nameOfStem, parseStoreFileName, type StoreFile, storePath } from './store-file.ts'

export interface ListedStore {
  readonly name: string
  readonly path: string
  /** Why it is not used, where it is set aside. */
  readonly aside: string | undefined
}

/** Of several generations the newest counts. In the order of their names. */
export async function listStores(folder: string): Promise<ListedStore[]> {
  const newest = new Map<string, StoreFile>()
  for (const fileName of await readdir(folder)) {
    const file = parseStoreFileName(fileName)
    if (file && (newest.get(file.stem)?.generation ?? -1) < file.generation) newest.set(file.stem, file)
  }
  const stores = await Promise.all(
    [...newest.values()].map(async (file): Promise<ListedStore> => {
      const path = storePath(folder, file)
      return { name: await nameOf(folder, file.stem), path, aside: await textOf(asidePath(path)) }
    }),
  )
  return stores.toSorted((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
}

/** The stem itself where the name is lost. */
async function nameOf(folder: string, stem: string): Promise<string> {
  if (!isDigest(stem)) return nameOfStem(stem) ?? stem
  return (await textOf(join(folder, `${stem}.name`))) ?? stem
}

async function textOf(path: string): Promise<string | undefined> {
  return (await readFile(path, 'utf8').catch(() => undefined))?.trim()
}
