#!/usr/bin/env node
/** The `settle` command: reads the flags, starts the service, ends it in order. */
import { enableCompileCache } from 'node:module'
import { parseArgs } from 'node:util'
import { keepTickObject } from './runtime/tick-object.ts'
import { inTunedProcess } from './tuned-process.ts'

const USAGE = `Usage: settle [options]

  --port N      the port to listen on (5984; 0 takes any free one)
  --bind A      the address to listen on (127.0.0.1)
  --dir D       the folder of the data (./data)
  --in-memory   keep everything in memory, leave nothing behind
  --set S/K=V   the setting K of the section S, such as log/level=debug; may come several times
  --version     print the version
  --help        print this
`

const FLAGS = {
  port: { type: 'string' },
  bind: { type: 'string' },
  dir: { type: 'string' },
  'in-memory': { type: 'boolean' },
  set: { type: 'string', multiple: true },
  version: { type: 'boolean' },
  help: { type: 'boolean' },
} as const

async function main(): Promise<void> {
  const flags = readFlags()
  if (flags.help) {
    process.stdout.write(USAGE)
    return
  }
  // Loaded late: the process may have been replaced by one with better settings before.
  const { createService, version } = await import('./service.ts')
  if (flags.version) {
    process.stdout.write(`${version}\n`)
    return
  }
  const { LineLog } = await import('./runtime/log.ts')
  const service = await createService({
    ...(flags.port !== undefined && { port: portNumber(flags.port) }),
    ...(flags.bind !== undefined && { bind: flags.bind }),
    ...(flags.dir !== undefined && { dir: flags.dir }),
    inMemory: flags['in-memory'] ?? false,
    settings: settingsOf(flags.set ?? []),
    environment: process.env,
    log: new LineLog('warn', process.stderr, { dated: false }),
    onFailure: fail,
  })
  const url = await service.listen().catch(async (error: unknown) => {
    await service.close()
    throw error
  })
  const folder = flags.dir ?? process.env.SETTLE_SERVICE__DATABASE_DIR ?? './data'
  const where = flags['in-memory'] ? 'in memory' : `in ${folder}`
  process.stdout.write(`Settle ${version} is ready at ${url} with its data ${where}. Stop it with Ctrl-C.\n`)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop(service))
}

/** Finishes the requests under way; a second signal does not wait for them. */
function stop(service: { close(): Promise<void> }): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))
  service.close().then(() => process.exit(0), fail)
}

function readFlags() {
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
      throw new Error(`${assignment} is no setting: section/key=value is wanted.`)
    }
    settings[section] = { ...settings[section], [key]: value }
  }
  return settings
}

function portNumber(text: string): number {
  const port = Number(text)
  if (!/^\d+$/.test(text) || port > 65535) throw new Error(`${text} is not a port: a number from 0 to 65535 is wanted.`)
  return port
}

function fail(error: unknown): void {
  process.stderr.write(`settle: ${error instanceof Error ? error.message : error}\n`)
  process.exit(1)
}

if (inTunedProcess()) {
  keepTickObject()
  // A second start reads what the first one compiled.
  enableCompileCache()
  main().catch(fail)
}
