/**
 * Where a server keeps what it keeps: its home folder with settings and log, and the folder of its databases, which is
 * the same one unless the configuration says otherwise. Or memory, with nothing on disk.
 */
import { resolve } from 'node:path'
import { OperatorFiles } from './config/operator-files.ts'
import { SettingFile, SettingMemory, type SettingStore } from './config/setting-store.ts'
import { DataFolder } from './storage/data-folder.ts'
import { LmdbEngine } from './storage/lmdb-engine.ts'
import { MemoryEngine } from './storage/memory-engine.ts'
import { DataFolderError } from './storage/storage-error.ts'
import type { StorageEngine } from './storage/store.ts'

/** The databases of a server, opened. */
export interface OpenData {
  readonly engine: StorageEngine
  openFiles(): number
  keepIdle(files: number): void
  close(): Promise<void>
}

export interface DataHome {
  /** Undefined in memory. */
  readonly folder: string | undefined
  readonly settings: SettingStore
  readonly operatorFiles?: OperatorFiles
  /** May be called again when what it gave is closed. */
  open(databaseFolder: string, idleFiles: number): Promise<OpenData>
  close(): Promise<void>
}

/** Locks the folder, so that nobody else uses it. Throws an error whose message is a sentence for people. */
export async function openHome(path: string): Promise<DataHome> {
  const home = await DataFolder.open(resolve(path))
  return {
    folder: home.path,
    settings: new SettingFile(resolve(home.path, 'settings.ini')),
    operatorFiles: new OperatorFiles(home.path),
    open: (databaseFolder, idleFiles) => openFolder(home.path, resolve(databaseFolder), idleFiles),
    close: async () => home.close(),
  }
}

export function memoryHome(): DataHome {
  // Kept over a restart: what was acknowledged is not lost.
  const engine = new MemoryEngine()
  return {
    folder: undefined,
    settings: new SettingMemory(),
    open: async () => ({ engine, openFiles: () => 0, keepIdle: () => {}, close: async () => {} }),
    close: () => engine.close(),
  }
}

async function openFolder(home: string, path: string, idleFiles: number): Promise<OpenData> {
  const other = path === home ? undefined : await DataFolder.open(path)
  try {
    const engine = await LmdbEngine.open({ folder: path, idleFiles })
    return {
      engine,
      // Those of the server's own databases do not count.
      openFiles: () => engine.openNames().filter((name) => !name.startsWith('_')).length,
      keepIdle: (files) => engine.keepIdle(files),
      close: async () => {
        await engine.close()
        other?.close()
      },
    }
  } catch (error) {
    other?.close()
    const reason = error instanceof Error ? error.message : String(error)
    throw new DataFolderError(`The data folder ${path} cannot be opened: ${reason}`, { cause: error })
  }
}
