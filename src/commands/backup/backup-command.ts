/** `settle backup`: backs up the databases of a running server into a folder, or to standard output. */
import { basename } from 'node:path'
import type { Writable } from 'node:stream'
import { parseArgs } from 'node:util'
import { isObject } from '../../encoding/json/json-value.ts'
import { CommandError, exitCodeOf, messageOf, worst, writeError } from '../command-error.ts'
import { SERVER_FLAGS, SERVER_USAGE, serverAddress } from '../credentials.ts'
import { countText, Progress, sizeText } from '../progress.ts'
import { ServerClient, ServerError } from '../server-client.ts'
import type { Terminal } from '../terminal.ts'
import { BackupFolder } from './backup-folder.ts'
import { type BackupOptions, databasesOf, openBackup } from './backup-plan.ts'
import { backupToStream } from './backup-stream.ts'
import { type Chain, followSection } from './chain.ts'
import { trialRestore } from './trial-restore.ts'
import { verifyBackup } from './verify.ts'

const BACKUP_USAGE = `Usage: settle backup --to FOLDER [options]
       settle backup --to - [options] > FILE
       settle backup list FOLDER
       settle backup verify FOLDER|- [--restore]

Backs up the databases of a running server. Each database is read from one snapshot, while
clients read and write it. The first backup into a folder is full; each further one adds what
changed since the last one, deletions and purges included. Run the command again to continue
an interrupted backup.

  --to FOLDER          where backups are kept; created if missing. - writes one full backup
                       to standard output
  --db NAME            only this database; may be repeated. Default: all databases, with
                       _users and _replicator, and the settings
  --full               make a full backup; older ones stay until you remove them
  --no-settings        leave out the settings of the server
  --verify             read everything back afterwards and check it
${SERVER_USAGE}
  --quiet              print errors only
  --help               print this

\`list\` shows what a folder holds. \`verify\` reads every frame and checks its checksum; with
--restore it also restores everything into a temporary server, on an empty folder below
--scratch D (default: the system's folder for temporary files), compares counts and checks
that folder.
Exit codes: 0 done · 1 failed · 2 incomplete: run it again · 3 damage was found.
`

const FLAGS = {
  to: { type: 'string' },
  db: { type: 'string', multiple: true },
  full: { type: 'boolean' },
  'no-settings': { type: 'boolean' },
  verify: { type: 'boolean' },
  restore: { type: 'boolean' },
  scratch: { type: 'string' },
  quiet: { type: 'boolean' },
  help: { type: 'boolean' },
  ...SERVER_FLAGS,
} as const

/** Resolves to the exit code. */
export async function backupCommand(args: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parsed(args)
  if (flags.help) {
    terminal.stdout.write(BACKUP_USAGE)
    return 0
  }
  const progress = new Progress(terminal.stderr, { quiet: flags.quiet ?? false })
  const [action, place, ...more] = positionals
  if (action !== undefined) {
    if (place === undefined || more.length > 0) throw new CommandError('Name one folder. Try settle backup --help.')
    if (action === 'verify') {
      const code = await verifyBackup(place, terminal.stdin, progress)
      if (code !== 0 || !flags.restore) return code
      if (place === '-') throw new CommandError('A stream is read once: restore it into a server of your own.')
      return trialRestore(place, { scratch: flags.scratch, isQuiet: flags.quiet ?? false }, terminal)
    }
    if (action === 'list' && place !== '-') return listBackups(place, terminal.stdout)
    throw new CommandError(`There is no settle backup ${action}. Try settle backup --help.`)
  }
  if (flags.to === undefined) throw new CommandError('--to FOLDER is missing. Try settle backup --help.')
  const client = new ServerClient(await serverAddress(flags, terminal))
  try {
    const options = {
      databases: flags.db,
      isFull: flags.full ?? false,
      withSettings: !flags['no-settings'] && flags.db === undefined,
    }
    if (flags.to === '-') return await backupToStream(client, options, terminal.stdout, progress)
    const code = await new FolderBackup(client, options, progress).run(flags.to)
    return flags.verify ? worst([code, await verifyBackup(flags.to, terminal.stdin, progress)]) : code
  } finally {
    progress.clear()
    await client.close()
  }
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: FLAGS, allowPositionals: true })
  } catch (error) {
    throw new CommandError(`${messageOf(error)} Try settle backup --help.`)
  }
}

class FolderBackup {
  readonly #client: ServerClient
  readonly #options: BackupOptions
  readonly #progress: Progress
  #savedBytes = 0

  constructor(client: ServerClient, options: BackupOptions, progress: Progress) {
    this.#client = client
    this.#options = options
    this.#progress = progress
  }

  async run(path: string): Promise<number> {
    const server = await this.#client.json('GET', '')
    const names = await databasesOf(this.#client, this.#options)
    const folder = await BackupFolder.openForWriting(path)
    try {
      const codes: number[] = []
      const gone = new Set<string>()
      if (this.#options.withSettings) await folder.writeSettings(await this.#client.json('GET', '_config'))
      for (const name of names) codes.push(await this.#attempt(folder, name, () => gone.add(name)))
      const saved = names.filter((name) => !gone.has(name))
      const code = worst(codes)
      if (code === 0 && !this.#options.databases) {
        const { uuid, version } = isObject(server) ? server : {}
        const about = { uuid: String(uuid ?? ''), version: String(version ?? ''), databases: saved }
        await folder.writeAbout({ ...about, finished: new Date().toISOString() })
      }
      const failed = codes.filter((each) => each !== 0).length
      if (failed > 0)
        this.#progress.warn(
          `${countText(failed, 'database is', 'databases are')} not backed up: run the command again.`,
        )
      else
        this.#progress.line(
          `${countText(saved.length, 'database')} backed up to ${path}, ${sizeText(this.#savedBytes)} added.`,
        )
      return code
    } catch (error) {
      throw writeError(path, error)
    } finally {
      folder.close()
    }
  }

  /** A failed database does not stop the others. */
  async #attempt(folder: BackupFolder, name: string, onGone: () => void): Promise<number> {
    try {
      const isThere = await this.#backUp(folder, name)
      if (!isThere) onGone()
      return 0
    } catch (error) {
      const failure = writeError(folder.path, error)
      this.#progress.warn(`${name}: ${messageOf(failure)}`)
      return exitCodeOf(failure, 'incomplete')
    }
  }

  /** False where the database was deleted after the list was made. */
  async #backUp(folder: BackupFolder, name: string): Promise<boolean> {
    const before = await folder.chainOf(name)
    const recovered = (await before?.recover()) ?? 0
    if (recovered > 0) this.#progress.line(`${name}: continues after ${sizeText(recovered)} of an interrupted backup.`)
    const last = before?.last
    for (const fault of before?.faults ?? []) this.#progress.warn(`${name}: ${fault}`)
    // A damaged chain is kept: parts of it may still be restored.
    const isUsable = before && !before.hasUnlisted
    // With --full, an interrupted full backup is continued, not begun again.
    const beginsAnew = this.#options.isFull && (before?.restorable.length ?? 0) > 0
    if (!isUsable || beginsAnew) return this.#saveWhole(folder, name)
    try {
      const query =
        last && before.database
          ? `?since=${last.until}&purge_since=${last.purge_until}&uuid=${before.database.uuid}`
          : ''
      return await this.#save(before, name, query)
    } catch (error) {
      if (!(error instanceof ServerError) || error.error !== 'whole_backup_needed') throw error
      this.#progress.line(`${name}: ${error.message}`)
      return this.#saveWhole(folder, name)
    }
  }

  async #saveWhole(folder: BackupFolder, name: string): Promise<boolean> {
    return this.#save(await folder.newChain(name), name, '')
  }

  async #save(chain: Chain, name: string, query: string): Promise<boolean> {
    this.#progress.begin(name)
    const pieces = await openBackup(this.#client, name, query)
    if (!pieces) return false
    const writer = await chain.begin()
    try {
      let bytes = 0
      const written = async function* () {
        for await (const piece of pieces) {
          // Not `write`, which may write only a part when the disk is nearly full.
          await writer.handle.writeFile(piece)
          bytes += piece.length
          yield piece
        }
      }
      const check = await followSection(written(), ({ head, position }) => {
        const share = head.until === head.since ? 1 : (position - head.since) / (head.until - head.since)
        this.#progress.update(share, sizeText(bytes))
      })
      if (!check.end) throw new CommandError('The server stopped before the backup was complete.', 'incomplete')
      const isKept = await chain.finish(writer, check)
      if (isKept) this.#savedBytes += bytes
      const what = isKept
        ? `${countText(check.end.documents, 'changed document')}, ${sizeText(bytes)}`
        : 'nothing changed'
      this.#progress.line(`${name}: ${what}`)
      return true
    } catch (error) {
      await writer.handle.close().catch(() => {})
      throw error
    }
  }
}

async function listBackups(path: string, output: Writable): Promise<number> {
  const folder = await BackupFolder.openForReading(path)
  const about = await folder.about()
  if (about) output.write(`The last complete run finished at ${about.finished}, of Settle ${about.version}.\n`)
  for (const chain of await folder.chains()) {
    const { database, restorable, segments } = chain
    const bytes = segments.reduce((sum, each) => sum + each.bytes, 0)
    const last = restorable.at(-1)
    const state = last ? `as of ${last.made}` : 'not complete yet'
    output.write(
      `${database?.name ?? basename(chain.path)}\t${state}\t${countText(segments.length, 'segment')}\t${sizeText(bytes)}\t${chain.path}\n`,
    )
  }
  return 0
}
