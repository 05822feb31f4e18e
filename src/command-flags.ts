/** The flags of the `settle` command. */
import { parseArgs } from 'node:util'
import { DIALECTS, type Dialect } from './config/dialect.ts'
import type { ServiceOptions } from './service-options.ts'

export const USAGE = `Usage: settle [options]
       settle COMMAND [options]

Runs the server:

  --port N      the port to listen on (5984; 0 takes any free one)
  --bind A      the address to listen on (127.0.0.1)
  --dir D       the folder of the data (./data)
  --nodes N     how many processes answer requests (auto: by the cores and memory of the machine)
  --engine URL  keep the databases in a PostgreSQL server: postgres://user:password@host:port/database
                (SETTLE_ENGINE says the same, and is not seen in the list of processes)
  --in-memory   keep everything in memory, leave nothing behind
  --dialect D   1.6 (the default), or 3 for clients that expect release 3
  --set S/K=V   the setting K of the section S, such as log/level=debug; may come several times
  --version     print the version
  --help        print this

Commands, each with a --help of its own:

  backup        back up the databases of a running server, whole or what changed
  restore       restore databases from a backup
  import        import a whole CouchDB, or another Settle
  check         verify a data folder, and repair what can be repaired
`

const FLAGS = {
  port: { type: 'string' },
  bind: { type: 'string' },
  dir: { type: 'string' },
  nodes: { type: 'string' },
  engine: { type: 'string' },
  'in-memory': { type: 'boolean' },
  dialect: { type: 'string' },
  set: { type: 'string', multiple: true },
  version: { type: 'boolean' },
  help: { type: 'boolean' },
} as const

export interface CommandFlags {
  readonly help: boolean
  readonly version: boolean
  readonly service: ServiceOptions
}

/** Throws an error whose message is for the operator. */
export function commandFlags(): CommandFlags {
  const flags = parsed()
  if (flags.nodes !== undefined && flags['in-memory']) {
    throw new Error('--nodes needs data on disk: several processes cannot share data in memory.')
  }
  return {
    help: flags.help ?? false,
    version: flags.version ?? false,
    service: {
      ...(flags.port !== undefined && { port: portNumber(flags.port) }),
      ...(flags.bind !== undefined && { bind: flags.bind }),
      ...(flags.dir !== undefined && { dir: flags.dir }),
      ...(flags.engine !== undefined && { engine: flags.engine }),
      ...(flags.dialect !== undefined && { dialect: dialectNamed(flags.dialect) }),
      inMemory: flags['in-memory'] ?? false,
      settings: settingsOf([
        ...(flags.set ?? []),
        ...(flags.nodes === undefined ? [] : [`service/nodes=${flags.nodes}`]),
      ]),
    },
  }
}

function dialectNamed(text: string): Dialect {
  const dialect = DIALECTS.find((each) => each === text)
  if (!dialect) throw new Error(`--dialect must be 1.6 or 3, not ${text}.`)
  return dialect
}

function parsed() {
  try {
    return parseArgs({ options: FLAGS }).values
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error} Try --help.`)
  }
}

function settingsOf(assignments: readonly string[]): Record<string, Record<string, string>> {
  const settings: Record<string, Record<string, string>> = {}
  for (const assignment of assignments) {
    const [, section, key, value] = /^([^/]+)\/([^=]+)=(.*)$/s.exec(assignment) ?? []
    if (section === undefined || key === undefined || value === undefined) {
      throw new Error(`${assignment} is not a setting. Write it as section/key=value.`)
    }
    settings[section] = { ...settings[section], [key]: value }
  }
  return settings
}

function portNumber(text: string): number {
  const port = Number(text)
  if (!/^\d+$/.test(text) || port > 65535) throw new Error(`${text} is not a port. A port is a number from 0 to 65535.`)
  return port
}

/** Prints the message of an error and exits. */
export function fail(error: unknown): void {
  process.stderr.write(`settle: ${error instanceof Error ? error.message : error}\n`)
  process.exit(1)
}
