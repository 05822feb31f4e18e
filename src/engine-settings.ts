/** Where the settings keep databases: in the server's own engine, and in those that `[engines]` names. */
import type { Configuration } from './config/configuration.ts'
import { ENGINES, FILES, SettingError } from './config/setting-rules.ts'
import { parseAddress } from './storage/postgres/engine-address.ts'
import type { PostgresOptions } from './storage/postgres/postgres-server.ts'
import { NamePatterns } from './storage/routed/name-patterns.ts'

export interface EngineSettings {
  /** The server's own engine; undefined where that is the data folder. */
  readonly own: PostgresOptions | undefined
  /** Undefined where the server has one engine. */
  readonly others: OtherEngines | undefined
}

export interface OtherEngines {
  readonly engines: readonly PostgresOptions[]
  /** The index of the engine in which databases of a name are created; `own` or undefined is the server's own. */
  readonly patterns: NamePatterns<number | 'own'>
}

/** Throws `SettingError` where they contradict each other. */
export function engineSettings(
  configuration: Configuration,
  { isInMemory }: { readonly isInMemory: boolean },
): EngineSettings {
  const address = configuration.get('service', 'engine')
  const limits = {
    readConnections: configuration.integer('service', 'engine_read_connections'),
    writeConnections: configuration.integer('service', 'engine_write_connections'),
    cacheBytes: configuration.integer('service', 'engine_cache'),
    leaseMs: configuration.integer('service', 'engine_lease'),
  }
  const own = address === undefined ? undefined : { ...limits, address }
  const entries = [...configuration.section(ENGINES)]
  if (entries.length === 0) return { own, others: undefined }
  if (isInMemory) {
    throw new SettingError(`A server that keeps everything in memory has no other engines: [${ENGINES}] must be empty.`)
  }
  const [files] = entries.find(([, value]) => value === FILES) ?? []
  if (own && files !== undefined) {
    throw new SettingError(
      `The setting ${ENGINES}/${files} cannot be ${FILES} on a server whose own engine is PostgreSQL: ` +
        'other servers on that engine could not reach these databases.',
    )
  }
  const engines: PostgresOptions[] = []
  const places = new Map<string, number | 'own'>(own && [[identityOf(own.address), 'own']])
  const placeOf = (value: string): number | 'own' => {
    if (value === FILES) return 'own'
    const identity = identityOf(value)
    const known = places.get(identity)
    if (known !== undefined) return known
    places.set(identity, engines.length)
    return engines.push({ ...limits, address: value }) - 1
  }
  const patterns = new NamePatterns(entries.map(([pattern, value]) => [pattern, placeOf(value)] as const))
  return { own, others: engines.length === 0 ? undefined : { engines, patterns } }
}

function identityOf(address: string): string {
  const { connectionString, schema } = parseAddress(address)
  return `${schema} ${connectionString}`
}
