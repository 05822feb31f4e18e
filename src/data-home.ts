/**
 * Where a server keeps its data: a home folder with settings and log, and the folders of its databases and indexes,
 * which are the home folder by default. Or memory, with nothing on disk.
 */
import { rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { OpeningSocket } from './cluster/opening-socket.ts'
import { OperatorFiles, SettingFile, SettingMemory, type SettingStore } from './config/setting-sources.ts'
import { SharedSettings } from './config/shared-settings.ts'
import type { EngineSettings } from './engine-settings.ts'
import { PROBE_FILE } from './http/admin/health.ts'
import type { OpenData } from './open-data.ts'
import type { Log } from './runtime/log/log.ts'
import { DataFolder, type DataFolderOptions } from './storage/files/data-folder.ts'
import type { TakeLease } from './storage/files/folder-lock.ts'
import { makeFolder, stemOf } from './storage/files/store-file.ts'
import { awaitVacancy } from './storage/leases/tenancy-lock.ts'
import { checkLibrary } from './storage/lmdb/library/library-check.ts'
import { type LibraryUse, setLibraryUse, useWithout } from './storage/lmdb/library/library-use.ts'
import { LmdbEngine, type LmdbEngineOptions } from './storage/lmdb/lmdb-engine.ts'
import type { FileReports } from './storage/lmdb/lmdb-errors.ts'
import { MemoryEngine } from './storage/memory/memory-engine.ts'
import type { PostgresOptions } from './storage/postgres/postgres-server.ts'
import { DataFolderError } from './storage/storage-error.ts'
import { RunFiles } from './views/building/run-files.ts'
import { ProcessRunner } from './views/processes/process-runner.ts'
import { LocalRunner } from './views/updating/index-runner.ts'

export interface DataFolders {
  readonly databases: string
  readonly indexes: string
}

export interface OpenDataOptions {
  /** Files without users that are kept open. */
  readonly idleFiles: number
  /** Which undocumented parts of the LMDB library the settings allow. */
  readonly library?: LibraryUse
  /** How long another process may take to open a file. */
  readonly openMs: () => number
  readonly log: Log
  /** Generations of files that other processes may still read, though the files are gone. */
  readonly usedGenerations?: number
  /** Where databases are kept. With a PostgreSQL server of its own, the folders hold what is this server's alone. */
  readonly engines: EngineSettings
}

export interface DataHome {
  /** Undefined in memory. */
  readonly folder: string | undefined
  readonly settings: SettingStore
  readonly operatorFiles?: OperatorFiles
  /** May be called again after the returned data is closed. */
  open(folders: DataFolders, options: OpenDataOptions): Promise<OpenData>
  close(): Promise<void>
}

/** Locks the folder. Throws an error whose message is for the operator. */
export async function openHome(path: string, options: DataFolderOptions = {}): Promise<DataHome> {
  const { lease } = options
  const home = await DataFolder.open(resolve(path), options)
  const settings = new SettingFile(resolve(home.path, 'settings.ini'))
  const operatorFiles = new OperatorFiles(home.path)
  // Files that a crash left. The folder is locked, so nothing writes them now.
  await settings.clearUp()
  await operatorFiles.clearUp()
  return {
    folder: home.path,
    settings,
    operatorFiles,
    open: (folders, options) => openData(home.path, folders, { ...options, lease }),
    close: async () => home.close(),
  }
}

export function memoryHome(): DataHome {
  // Kept over a restart: what was acknowledged is not lost.
  const engine = new MemoryEngine()
  const indexEngine = new MemoryEngine()
  return {
    folder: undefined,
    settings: new SettingMemory(),
    open: async () => ({
      engine,
      indexEngine,
      // No other process reaches this memory.
      indexRunner: ({ functions }) => new LocalRunner(functions),
      openFiles: () => 0,
      openDatabases: () => undefined,
      keepIdle: () => {},
      close: async () => {},
    }),
    close: async () => {
      await engine.close()
      await indexEngine.close()
    },
  }
}

/** The temporary files of index builds. */
const RUNS = 'view_runs'

async function openData(home: string, folders: DataFolders, options: FolderOptions): Promise<OpenData> {
  const { engines, log } = options
  const runs = join(home, RUNS)
  await rm(runs, { recursive: true, force: true })
  const own = engines.own ? await openPostgres(engines.own, runs) : await openFolders(home, folders, options)
  if (!engines.others) return own
  try {
    // The driver is loaded only where it is needed.
    const { openRouted } = await import('./routed-data.ts')
    return await openRouted(own, { ...engines.others, runs, log })
  } catch (error) {
    await own.close()
    throw error
  }
}

async function openPostgres(options: PostgresOptions, runs: string): Promise<OpenData> {
  // The driver is loaded only where it is needed.
  const { openNamedStore, PostgresEngine } = await import('./storage/postgres/postgres-engine.ts')
  const { PostgresServer } = await import('./storage/postgres/postgres-server.ts')
  const server = await PostgresServer.open(options)
  try {
    const engine = await PostgresEngine.on(server, 'databases', { confirmsDrops: true })
    const indexEngine = await PostgresEngine.on(server, 'indexes')
    return {
      engine,
      indexEngine,
      settings: new SharedSettings(await openNamedStore(server, 'settings')),
      confirm: (database) => engine.confirm(database),
      refreshed: () => server.refreshed(),
      check: () => server.check(),
      otherServers: server.others,
      // In this process: the sandbox and the engine do the work, and both are other processes.
      indexRunner: ({ functions, settings }) =>
        new LocalRunner(
          functions,
          {
            sortBytes: () => settings().sortBytes,
            runsOf: (store) => new RunFiles(join(runs, stemOf(store))),
          },
          () => server.leases,
        ),
      openFiles: () => 0,
      openDatabases: () => undefined,
      keepIdle: () => {},
      close: async () => {
        await engine.close()
        await indexEngine.close()
        await server.close()
      },
    }
  } catch (error) {
    await server.close()
    throw error
  }
}

/** Databases of the server itself, and their indexes, begin with an underscore. */
function isOfUsers(storeName: string): boolean {
  return !storeName.startsWith('_')
}

/** Within their folder, which may be that of the databases. */
const INDEXES = 'view_indexes'

interface FolderOptions extends OpenDataOptions {
  readonly lease: TakeLease | undefined
}

async function openFolders(home: string, folders: DataFolders, options: FolderOptions): Promise<OpenData> {
  const { idleFiles, log, lease, usedGenerations = 0 } = options
  const { use, problems } = await checkLibrary(home, options.library ?? useWithout([]))
  for (const problem of problems)
    log.warn('An undocumented part of the LMDB library does not work as expected.', { problem })
  setLibraryUse(use)
  const reports = fileReports(log)
  const onKilled = (pid: number) =>
    log.warn('A process of an earlier server was still running. It was killed.', { pid })
  const databases = resolve(folders.databases)
  const indexes = resolve(folders.indexes)
  const others: DataFolder[] = []
  const opened: LmdbEngine[] = []
  let socket: OpeningSocket | undefined
  const close = async () => {
    await socket?.close()
    for (const engine of opened) await engine.close()
    for (const other of others) other.close()
  }
  try {
    for (const path of new Set([databases, indexes])) {
      if (path !== home) others.push(await DataFolder.open(path, { lease, onKilled }))
    }
    // What a crash left.
    await rm(join(databases, PROBE_FILE), { force: true }).catch(() => {})
    const engine = await openEngine(databases, { folder: databases, idleFiles, reports, usedGenerations })
    opened.push(engine)
    const folder = join(indexes, INDEXES)
    await makeFolder(folder)
    await awaitVacancy(folder, onKilled)
    const indexEngine = await openEngine(indexes, { folder, idleFiles, isShared: true, reports, usedGenerations })
    opened.push(indexEngine)
    socket = await openingSocket(databases, { engine, folder, indexEngine }, options)
    void engine.inspect()
    void indexEngine.inspect()
    return {
      engine,
      indexEngine,
      followed: { databases: engine, indexes: indexEngine },
      indexRunner: (options) => {
        const local = new LocalRunner(options.functions, {
          sortBytes: () => options.settings().sortBytes,
          runsOf: (store) => new RunFiles(indexEngine.scratchFolder(store)),
        })
        return new ProcessRunner({ ...options, databases: engine, indexes: indexEngine, folder, local })
      },
      openFiles: () => [...engine.openNames(), ...indexEngine.openNames()].filter(isOfUsers).length,
      // One that is being compacted has two files.
      openDatabases: () => new Set(engine.openNames().filter(isOfUsers)).size,
      keepIdle: (files) => {
        engine.keepIdle(files)
        indexEngine.keepIdle(files)
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Without it, commands that read the folder are refused until the server is stopped. */
async function openingSocket(
  databases: string,
  { engine, folder, indexEngine }: { readonly engine: LmdbEngine; folder: string; readonly indexEngine: LmdbEngine },
  { openMs, log }: OpenDataOptions,
): Promise<OpeningSocket | undefined> {
  try {
    return await OpeningSocket.listen({
      folder: databases,
      kinds: { databases: { folder: databases, stores: engine }, indexes: { folder, stores: indexEngine } },
      timeoutMs: openMs,
      onKilled: (pid) => log.error('A command did not open a file in time. It was killed.', { pid }),
    })
  } catch (error) {
    log.warn('There is no socket for commands that read the data folder.', { error: String(error) })
    return undefined
  }
}

function fileReports(log: Log): FileReports {
  return {
    damaged: ({ path, problem }) => log.error('A file is damaged and cannot be used.', { file: path, problem }),
    repaired: (path, notice) => log.warn('A damaged file was repaired.', { file: path, notice }),
  }
}

async function openEngine(path: string, options: LmdbEngineOptions): Promise<LmdbEngine> {
  try {
    return await LmdbEngine.open(options)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new DataFolderError(`The data folder ${path} cannot be opened: ${reason}`, { cause: error })
  }
}
