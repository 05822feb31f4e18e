/**
 * The data of a server that keeps its databases in several engines: its own, and PostgreSQL servers beside it. Nothing above
 * the storage knows of it.
 */
import { join } from 'node:path'
import type { OtherEngines } from './engine-settings.ts'
import type { OpenData } from './open-data.ts'
import type { Log } from './runtime/log/log.ts'
import { stemOf } from './storage/files/store-file.ts'
import { LatePostgres } from './storage/postgres/late-postgres.ts'
import type { PostgresOptions } from './storage/postgres/postgres-server.ts'
import type { EnginePart } from './storage/routed/engine-part.ts'
import { RoutedEngine } from './storage/routed/routed-engine.ts'
import { RoutedIndexes } from './storage/routed/routed-indexes.ts'
import { StorageError } from './storage/storage-error.ts'
import type { StorageEngine } from './storage/store.ts'
import { RunFiles } from './views/building/run-files.ts'
import { databasePart, databasePartOf } from './views/index-store-name.ts'
import { LocalRunner } from './views/updating/index-runner.ts'
import { RoutedRunner } from './views/updating/routed-runner.ts'

export interface RoutedDataOptions extends OtherEngines {
  /** For the temporary files of index builds. */
  readonly runs: string
  readonly log: Log
}

/** The server's own data with the other engines beside it. Closes nothing of its own when it throws. */
export async function openRouted(own: OpenData, options: RoutedDataOptions): Promise<OpenData> {
  const { engines, patterns, runs, log } = options
  const owners = new Map<string, object>()
  if (own.engine.uuid !== undefined) owners.set(own.engine.uuid, own)
  const others = engines.map((each) => otherEngine(each, owners, log))
  const closeOthers = async () => {
    await Promise.all(others.map((each) => each.close()))
  }
  try {
    await Promise.all(others.map((each) => each.open()))
  } catch (error) {
    await closeOthers()
    throw error
  }
  const ownPart: EnginePart = { shown: "the server's own", engine: own.engine, isListed: true }
  const parts = others.map(({ shown, databases }) => partOf(shown, databases))
  const engine = new RoutedEngine({
    parts: [ownPart, ...parts],
    assigned: (name) => {
      const place = patterns.find(name) ?? 'own'
      return (place === 'own' ? undefined : parts[place]) ?? ownPart
    },
    keyOf,
    onTwice: (database, used, hidden) =>
      log.error('A database is in two storage engines. Only one of them is used.', {
        database,
        used: used.shown,
        hidden: hidden.shown,
      }),
  })
  /** Undefined for the server's own. */
  const otherOf = (part: EnginePart) => others[parts.indexOf(part)]
  const indexParts = others.map(({ shown, indexes }) => partOf(shown, indexes))
  const indexEngine = new RoutedIndexes(
    [{ ...ownPart, engine: own.indexEngine }, ...indexParts],
    (store) => otherOf(engine.partByKey(databasePartOf(store)))?.indexes ?? own.indexEngine,
  )
  return {
    ...own,
    engine,
    indexEngine,
    isOwn: (database) => engine.partOf(database) === ownPart,
    confirm: async (database) => {
      const other = otherOf(engine.partOf(database))
      await (other ? other.confirm(database) : own.confirm?.(database))
    },
    refreshed: (database) => together(own.refreshed?.(database), otherOf(engine.partOf(database))?.refreshed()),
    indexRunner: (runner) => {
      const { functions, settings } = runner
      const sorting = {
        sortBytes: () => settings().sortBytes,
        runsOf: (store: string) => new RunFiles(join(runs, stemOf(store))),
      }
      const local = new Map(others.map((other) => [other, new LocalRunner(functions, sorting, () => other.leases)]))
      return new RoutedRunner(own.indexRunner(runner), ({ database }) => {
        const other = otherOf(engine.partOf(database.name))
        return other && local.get(other)
      })
    },
    close: async () => {
      await closeOthers()
      await own.close()
    },
  }
}

/** Names have ASCII characters, of which escaping makes three at most: these are below the limit of `databasePart`. */
const SHORT_CHARACTERS = 50

/** The same as `databasePart`, which takes time. */
function keyOf(database: string): string {
  return database.length <= SHORT_CHARACTERS ? database : databasePart(database)
}

function together(a: Promise<void> | undefined, b: Promise<void> | undefined): Promise<void> | undefined {
  return a && b ? Promise.all([a, b]).then(() => {}) : (a ?? b)
}

function partOf(shown: string, engine: StorageEngine & { readonly isListed: boolean }): EnginePart {
  return {
    shown,
    engine,
    get isListed() {
      return engine.isListed
    },
  }
}

/** Two addresses may lead to the same tables: each of their databases would be there twice. */
function otherEngine(options: PostgresOptions, owners: Map<string, object>, log: Log): LatePostgres {
  const engine: LatePostgres = new LatePostgres(
    options,
    (uuid) => {
      const owner = owners.get(uuid) ?? engine
      if (owner !== engine) {
        throw new StorageError(
          `Two addresses lead to the same tables, one of them is ${engine.shown}. Use one of them.`,
        )
      }
      owners.set(uuid, engine)
    },
    {
      away: (error) =>
        log.error('A storage engine cannot be reached. Its databases cannot be used until it is.', {
          engine: engine.shown,
          error: String(error),
        }),
      there: () => log.info('A storage engine is reached.', { engine: engine.shown }),
      refused: (error) =>
        log.error('A storage engine is reached and cannot be used.', { engine: engine.shown, error: String(error) }),
    },
  )
  return engine
}
