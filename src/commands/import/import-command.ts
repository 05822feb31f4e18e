/** `settle import`: imports a whole CouchDB, pouchdb-server or another Settle into a running Settle. */
import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { isObject } from '../../encoding/json/json-value.ts'
import { HttpAgents } from '../../replication/client/http-agents.ts'
import { CommandError, EXIT_CODES, messageOf } from '../command-error.ts'
import { SERVER_FLAGS, SERVER_USAGE, serverAddress } from '../credentials.ts'
import { Progress } from '../progress.ts'
import { ServerClient } from '../server-client.ts'
import type { Terminal } from '../terminal.ts'
import { type ImportContext, importDatabase, type Side } from './import-database.ts'
import { type DatabaseReport, type ImportReport, isWhole, type LeftOut, reportText } from './import-report.ts'
import { type ImportedSettings, importSettings } from './import-settings.ts'

const USAGE = `Usage: settle import SOURCE [options]

Imports a whole server of the CouchDB family (1.x to 3.x), or another Settle, into a running
Settle: databases, documents with history, conflicts and attachments, _security, users with
their passwords, and settings that mean the same here. Nothing is written to the source.
Run the same command again to go on where it was interrupted, or to bring what is new.

  SOURCE               the address of the other server, such as http://old.example:5984/
  --source-user NAME   an administrator of the source (SETTLE_SOURCE_USER)
  --source-password-file F
                       its password; otherwise in SETTLE_SOURCE_PASSWORD, or asked for
${SERVER_USAGE}
  --only NAMES         these databases alone, with commas between
  --except NAMES       all but these
  --local              _local documents too: checkpoints of replications, among others
  --replications       the documents of _replicator too. Their replications begin at once
  --no-users           without _users
  --no-settings        without settings and administrators
  --fresh              look at everything again, whatever an earlier import wrote down
  --report FILE        write what was done to a file, as JSON
  --quiet              no progress
  --help               print this
`

const FLAGS = {
  ...SERVER_FLAGS,
  'source-user': { type: 'string' },
  'source-password-file': { type: 'string' },
  only: { type: 'string' },
  except: { type: 'string' },
  local: { type: 'boolean', default: false },
  replications: { type: 'boolean', default: false },
  'no-users': { type: 'boolean', default: false },
  'no-settings': { type: 'boolean', default: false },
  fresh: { type: 'boolean', default: false },
  report: { type: 'string' },
  quiet: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

export async function importCommand(args: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parsed(args)
  if (flags.help) {
    terminal.stdout.write(USAGE)
    return 0
  }
  const [from, ...others] = positionals
  if (from === undefined || others.length > 0) throw new CommandError('Name the address of one source. Try --help.')
  const source = sideOf(await sourceAddress(from, flags, terminal))
  const target = sideOf(await serverAddress(flags, terminal))
  const agents = new HttpAgents()
  const ending = new AbortController()
  const stop = () => ending.abort(new CommandError('Interrupted. Run the same command again to go on.', 'incomplete'))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  try {
    const report = await run({ source, target, agents, flags, signal: ending.signal }, terminal)
    if (flags.report !== undefined) await writeFile(flags.report, `${JSON.stringify(report, undefined, 2)}\n`)
    terminal.stdout.write(reportText(report))
    return isWhole(report) ? 0 : EXIT_CODES.incomplete
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stop)
    await Promise.all([agents.close(), source.client.close(), target.client.close()])
  }
}

type Flags = ReturnType<typeof parsed>['values']

interface Run {
  readonly source: Side
  readonly target: Side
  readonly agents: HttpAgents
  readonly flags: Flags
  readonly signal: AbortSignal
}

async function run({ source, target, agents, flags, signal }: Run, terminal: Terminal): Promise<ImportReport> {
  const progress = new Progress(terminal.stderr, { quiet: flags.quiet })
  const leftOut: LeftOut[] = []
  const leaveOut = (what: string, why: string) => void leftOut.push({ what, why })
  await checkServers(source, target)
  const names = chosen(await namesOf(source.client), flags, leaveOut)
  const databases: DatabaseReport[] = []
  const failed: LeftOut[] = []
  for (const [i, name] of names.entries()) {
    progress.begin(`${name} (${i + 1} of ${names.length})`)
    const context: ImportContext = {
      source,
      target,
      agents,
      signal,
      leaveOut,
      withLocalDocuments: flags.local,
      isFresh: flags.fresh,
      onProgress: (share, detail) => progress.update(share, detail),
    }
    try {
      const report = await importDatabase(name, context)
      databases.push(report)
      progress.line(`${name}: ${report.target.documents} documents, ${report.revisionsWritten} revisions written now`)
    } catch (error) {
      signal.throwIfAborted()
      // A database that cannot be read does not stop the import of the others.
      failed.push({ what: name, why: messageOf(error) })
      progress.warn(`${name}: ${messageOf(error)}`)
    }
  }
  const settings = flags['no-settings'] ? undefined : await settingsOrFailure(source, target, failed)
  progress.clear()
  return {
    source: source.address.url,
    target: target.address.url,
    databases,
    settings: settings?.set ?? [],
    leftOut: [...leftOut, ...(settings?.leftOut ?? [])],
    failed,
  }
}

/** What was done before is reported all the same. */
async function settingsOrFailure(source: Side, target: Side, failed: LeftOut[]): Promise<ImportedSettings | undefined> {
  try {
    return await importSettings(source.client, target.client)
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    failed.push({ what: 'settings', why: error.message })
    return undefined
  }
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: FLAGS, allowPositionals: true })
  } catch (error) {
    throw new CommandError(`${messageOf(error)} Try --help.`)
  }
}

function sideOf(address: Side['address']): Side {
  return { address, client: new ServerClient(address) }
}

function sourceAddress(url: string, flags: Flags, terminal: Terminal) {
  const { SETTLE_SOURCE_USER, SETTLE_SOURCE_PASSWORD, ...environment } = terminal.environment
  const own = {
    ...environment,
    SETTLE_USER: SETTLE_SOURCE_USER,
    SETTLE_PASSWORD: SETTLE_SOURCE_PASSWORD,
  }
  const given = { url, user: flags['source-user'], 'password-file': flags['source-password-file'] }
  return serverAddress(given, { ...terminal, environment: own })
}

/** Checks that both servers answer and are not the same one. */
async function checkServers(source: Side, target: Side): Promise<void> {
  const [theirs, ours] = await Promise.all([source.client.json('GET', ''), target.client.json('GET', '')])
  const uuid = isObject(ours) ? ours.uuid : undefined
  if (isObject(theirs) && theirs.uuid !== undefined && theirs.uuid === uuid) {
    throw new CommandError('Source and target are the same server.')
  }
}

async function namesOf(client: ServerClient): Promise<string[]> {
  const names = await client.json('GET', '_all_dbs')
  if (!Array.isArray(names)) throw new CommandError(`${client.url} does not list its databases.`)
  return names.map(String)
}

function chosen(names: readonly string[], flags: Flags, leaveOut: (what: string, why: string) => void): string[] {
  const only = listed(flags.only)
  const except = listed(flags.except)
  for (const name of only ?? [])
    if (!names.includes(name)) throw new CommandError(`The source has no database ${name}.`)
  return names.filter((name) => {
    if (only && !only.has(name)) return false
    if (except?.has(name)) return false
    const reason = reasonAgainst(name, flags)
    if (reason !== undefined) leaveOut(name, reason)
    return reason === undefined
  })
}

function listed(text: string | undefined): ReadonlySet<string> | undefined {
  return text === undefined ? undefined : new Set(text.split(',').map((name) => name.trim()))
}

function reasonAgainst(name: string, flags: Flags): string | undefined {
  if (!name.startsWith('_')) return undefined
  if (name === '_users') return flags['no-users'] ? 'As asked with --no-users.' : undefined
  if (name !== '_replicator') return 'A system database of the other server.'
  return flags.replications
    ? undefined
    : 'Its replications would run twice. Use --replications once the source is switched off.'
}
