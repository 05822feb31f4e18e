/** `settle restore`: restores databases from a backup into a running server. */
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { parseArgs } from 'node:util'
import type { DatabaseHead } from '../../backup/database-frames.ts'
import { BackupDamagedError } from '../../backup/frame.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { BackupFolder } from '../backup/backup-folder.ts'
import { type Chain, READ_BYTES } from '../backup/chain.ts'
import { segmentFaults } from '../backup/segment-faults.ts'
import { CommandError, EXIT_CODES, exitCodeOf, messageOf, worst } from '../command-error.ts'
import { SERVER_FLAGS, SERVER_USAGE, serverAddress } from '../credentials.ts'
import { countText, Progress, sizeText } from '../progress.ts'
import { ServerClient } from '../server-client.ts'
import type { Terminal } from '../terminal.ts'
import { DigestSet } from './digest-set.ts'
import { FrameCursor } from './frame-cursor.ts'
import {
  beginSection,
  RestoreMarker,
  restoreSection,
  type SectionBegin,
  type SectionResult,
  type StreamParts,
} from './section-restore.ts'
import { restoreSettings } from './settings-restore.ts'
import { checkCounts, type PreparedTarget, prepareTarget } from './target-database.ts'

const RESTORE_USAGE = `Usage: settle restore --from FOLDER [options]
       settle restore --from - [options] < FILE

Restores databases from a backup into a running server: all leaves with their ids, histories and
attachments, the security object, the limits. Sequences start again. Indexes are built with
their first query. Run the command again to continue an interrupted restore.

  --from FOLDER        the folder of the backup; - reads standard input
  --db NAME[=NEW]      only this database, optionally under a new name; may be repeated.
                       Default: all databases of the last complete backup
  --merge              write into databases that exist already, as a replication would.
                       Without it they are refused, except for empty ones, and _users and
                       _replicator as a new server has them
  --local-documents    restore _local documents too. Checkpoints of replications in them
                       are not valid any more, since sequences differ
  --settings           apply the settings of the backup that differ from those of the server
${SERVER_USAGE}
  --quiet              print errors only
  --help               print this

Exit codes: 0 done · 1 failed · 2 incomplete: run it again · 3 damage was found.
`

const FLAGS = {
  from: { type: 'string' },
  db: { type: 'string', multiple: true },
  merge: { type: 'boolean' },
  'local-documents': { type: 'boolean' },
  settings: { type: 'boolean' },
  quiet: { type: 'boolean' },
  help: { type: 'boolean' },
  ...SERVER_FLAGS,
} as const

/** Resolves to the exit code. */
export async function restoreCommand(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = parsed(args)
  if (flags.help) {
    terminal.stdout.write(RESTORE_USAGE)
    return 0
  }
  if (flags.from === undefined) throw new CommandError('--from FOLDER is missing. Try settle restore --help.')
  const progress = new Progress(terminal.stderr, { quiet: flags.quiet ?? false })
  const client = new ServerClient(await serverAddress(flags, terminal))
  const restore = new Restore(client, progress, {
    names: flags.db && namesOf(flags.db),
    isMerged: flags.merge ?? false,
    withLocals: flags['local-documents'] ?? false,
    withSettings: flags.settings ?? false,
  })
  try {
    return flags.from === '-' ? await restore.fromStream(terminal.stdin) : await restore.fromFolder(flags.from)
  } finally {
    progress.clear()
    await client.close()
  }
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: FLAGS }).values
  } catch (error) {
    throw new CommandError(`${messageOf(error)} Try settle restore --help.`)
  }
}

/** Maps old names to new ones. A name has no equals sign. */
function namesOf(texts: readonly string[]): Map<string, string> {
  return new Map(
    texts.map((text) => {
      const [name = '', target = name] = text.split('=', 2)
      return [name, target]
    }),
  )
}

interface RestoreOptions {
  /** Undefined for all of them. */
  readonly names: ReadonlyMap<string, string> | undefined
  readonly isMerged: boolean
  readonly withLocals: boolean
  readonly withSettings: boolean
}

class Restore {
  readonly #client: ServerClient
  readonly #progress: Progress
  readonly #options: RestoreOptions
  /** The segment that is being read. */
  #place: string | undefined
  /** The database that is being written. */
  #begun: string | undefined

  constructor(client: ServerClient, progress: Progress, options: RestoreOptions) {
    this.#client = client
    this.#progress = progress
    this.#options = options
  }

  async fromFolder(path: string): Promise<number> {
    const folder = await BackupFolder.openForReading(path)
    const chains = await this.#chosen(folder)
    const codes: number[] = []
    for (const { chain, name, target } of chains) {
      codes.push(await this.#attempt(name, () => this.#restoreChain(chain, name, target)))
    }
    if (this.#options.withSettings) codes.push(await this.#settings(await folder.settings()))
    return this.#finished(codes, chains.length)
  }

  async fromStream(source: AsyncIterable<Buffer>): Promise<number> {
    const cursor = new FrameCursor(source)
    const codes: number[] = []
    const parts: StreamParts = {}
    const found = new Set<string>()
    let count = 0
    for (;;) {
      const begin = await this.#nextSection(cursor, parts, codes)
      if (!begin) break
      const { name } = begin.head
      const target = this.#options.names ? this.#options.names.get(name) : name
      found.add(name)
      if (target === undefined) continue
      count++
      // After an error the rest of its section is skipped, up to the first frame of the next database.
      codes.push(await this.#attempt(name, () => this.#restoreWhole(cursor, begin, target)))
    }
    const refuse = (sentence: string) => {
      this.#progress.warn(sentence)
      codes.push(EXIT_CODES.damaged)
    }
    if (!parts.databases)
      refuse("The frame 'complete' is missing: the stream ends early, and databases may be missing.")
    for (const name of parts.databases ?? []) if (!found.has(name)) refuse(`${name}: missing in the stream.`)
    for (const name of this.#options.names?.keys() ?? []) {
      if (found.has(name)) continue
      this.#progress.warn(`The backup has no database ${name}.`)
      codes.push(EXIT_CODES.failed)
    }
    if (this.#options.withSettings) codes.push(await this.#settings(parts.settings))
    return this.#finished(codes, count)
  }

  /** Frames between two databases may be damaged too. */
  async #nextSection(cursor: FrameCursor, parts: StreamParts, codes: number[]): Promise<SectionBegin | undefined> {
    try {
      return await beginSection(cursor, parts)
    } catch (error) {
      if (!(error instanceof BackupDamagedError)) throw error
      this.#progress.warn(error.message)
      codes.push(EXIT_CODES.damaged)
      return undefined
    }
  }

  async #chosen(folder: BackupFolder): Promise<{ chain: Chain; name: string; target: string }[]> {
    const newest = new Map<string, Chain>()
    for (const chain of await folder.chains()) {
      if (chain.database && chain.restorable.length > 0) newest.set(chain.database.name, chain)
    }
    const wanted =
      this.#options.names ??
      new Map(((await folder.about())?.databases ?? [...newest.keys()]).map((name) => [name, name]))
    return [...wanted]
      .map(([name, target]) => {
        const chain = newest.get(name)
        if (!chain) throw new CommandError(`The backup has no complete copy of ${name}.`)
        return { chain, name, target }
      })
      .toSorted((a, b) => rankOf(a.name) - rankOf(b.name))
  }

  async #restoreChain(chain: Chain, name: string, target: string): Promise<void> {
    const segments = chain.restorable.toReversed()
    const newestFile = segments[0]
    if (!newestFile) throw new CommandError(`The backup has no complete copy of ${name}.`)
    const total = segments.reduce((sum, { bytes }) => sum + bytes, 0)
    const marker = new RestoreMarker(this.#client, target, newestFile.sha256)
    const seen = segments.length > 1 ? new DigestSet() : undefined
    let state: (PreparedTarget & { readonly head: DatabaseHead }) | undefined
    let revisions = 0
    let bytesBefore = 0
    this.#progress.begin(name)
    let isReached = true
    for (const [i, segment] of segments.entries()) {
      this.#place = `${basename(chain.path)}/${segment.file}`
      const cursor = new FrameCursor(this.#counted(chain.pathOf(segment), bytesBefore, total))
      bytesBefore += segment.bytes
      const begin = await beginSection(cursor)
      if (!begin) throw new BackupDamagedError(0, `${segment.file} has no database.`)
      if (!state) {
        state = { head: begin.head, ...(await this.#prepare(begin, target, marker)) }
        if (state.isDone) return cursor.close()
        isReached = !state.isResumed
      }
      if (segment.file === marker.segment) isReached = true
      const isOfMarker = state.isResumed && segment.file === marker.segment
      const isOldest = i === segments.length - 1
      const result = await restoreSection(this.#client, cursor, begin.first, {
        target,
        newer: i > 0 ? seen : undefined,
        seen: isOldest ? undefined : seen,
        doneUntil: isReached ? (isOfMarker ? marker.sequence : 0) : Number.POSITIVE_INFINITY,
        withLocals: i === 0 && isReached && this.#options.withLocals,
        onPosition: (sequence) => marker.write(segment.file, sequence),
      })
      revisions += result.revisions
      for (const id of result.purged) seen?.add(id)
      this.#report(name, result)
      const [fault] = segmentFaults(chain, segment, result.check)
      if (fault !== undefined) throw new BackupDamagedError(result.check.positionEnd, fault)
    }
    if (state?.isNew) await checkCounts(this.#client, target, state.head)
    await marker.finish()
    this.#progress.line(`${name}: ${restoredText(target, name, revisions, total)}`)
  }

  async #restoreWhole(cursor: FrameCursor, begin: SectionBegin, target: string): Promise<void> {
    const { name, uuid, made } = begin.head
    if (begin.head.since > 0) throw new CommandError(`The stream has only a part of ${name}.`)
    this.#progress.begin(name)
    const marker = new RestoreMarker(this.#client, target, `${uuid} ${made}`)
    const { isNew, isResumed, isDone } = await this.#prepare(begin, target, marker)
    if (isDone) return
    const result = await restoreSection(this.#client, cursor, begin.first, {
      target,
      newer: undefined,
      seen: undefined,
      doneUntil: isResumed ? marker.sequence : 0,
      withLocals: this.#options.withLocals,
      onPosition: async (sequence) => {
        await marker.write('', sequence)
        this.#progress.update(sequence / Math.max(1, begin.head.until), countText(sequence, 'change'))
      },
    })
    this.#report(name, result)
    if (!result.check.end) throw new BackupDamagedError(result.check.positionEnd, `The stream ends within ${name}.`)
    if (isNew) await checkCounts(this.#client, target, begin.head)
    await marker.finish()
    this.#progress.line(`${name}: ${restoredText(target, name, result.revisions, undefined)}`)
  }

  async #prepare({ head, security }: SectionBegin, target: string, marker: RestoreMarker): Promise<PreparedTarget> {
    const { isMerged } = this.#options
    const outcome = await prepareTarget(this.#client, target, { head, security, isMerged, marker })
    if (outcome.isDone) {
      this.#progress.line(`${target}: was restored from this backup before. Delete it to restore it again.`)
      return outcome
    }
    this.#begun = target
    if (outcome.isResumed) this.#progress.line(`${target}: continues an interrupted restore.`)
    return outcome
  }

  async *#counted(path: string, before: number, total: number): AsyncGenerator<Buffer> {
    let bytes = before
    const pieces: AsyncIterable<Buffer> = createReadStream(path, { highWaterMark: READ_BYTES })
    try {
      for await (const piece of pieces) {
        bytes += piece.length
        this.#progress.update(bytes / Math.max(1, total), `${sizeText(bytes)} of ${sizeText(total)}`)
        yield piece
      }
    } catch (error) {
      throw new BackupDamagedError(bytes - before, `It cannot be read: ${messageOf(error)}`)
    }
  }

  #report(name: string, { refused }: SectionResult): void {
    for (const refusal of refused.slice(0, MOST_LINES)) this.#progress.warn(`${name}: ${refusal}`)
    if (refused.length > 0)
      throw new CommandError(`${countText(refused.length, 'revision is', 'revisions are')} refused by the server.`)
  }

  async #settings(settings: unknown): Promise<number> {
    if (!isObject(settings)) throw new CommandError('The backup has no settings.')
    return this.#attempt('settings', async () => {
      const { changed, refused } = await restoreSettings(this.#client, settings)
      for (const refusal of refused) this.#progress.warn(`settings: ${refusal}`)
      this.#progress.line(`settings: ${changed} set, ${refused.length} left as they are.`)
    })
  }

  /** A failed database does not stop the others. */
  async #attempt(name: string, restore: () => Promise<void>): Promise<number> {
    this.#place = undefined
    this.#begun = undefined
    try {
      await restore()
      return 0
    } catch (error) {
      const place = error instanceof BackupDamagedError && this.#place !== undefined ? `${this.#place}: ` : ''
      this.#progress.warn(`${name}: ${place}${messageOf(error)}`)
      if (this.#begun !== undefined) this.#progress.warn(`${name}: ${this.#begun} is restored only in part.`)
      return exitCodeOf(error, 'incomplete')
    }
  }

  #finished(codes: readonly number[], count: number): number {
    const failed = codes.filter((code) => code !== 0).length
    if (failed === 0) this.#progress.line(`${countText(count, 'database')} restored.`)
    return worst(codes)
  }
}

const MOST_LINES = 20

/** Users first; replications last, when the databases that they replicate are there. */
function rankOf(name: string): number {
  if (name === '_users') return 0
  return name === '_replicator' ? 2 : 1
}

function restoredText(target: string, name: string, revisions: number, bytes: number | undefined): string {
  const size = bytes === undefined ? '' : `, ${sizeText(bytes)} read`
  return `${countText(revisions, 'revision')} restored${target === name ? '' : ` as ${target}`}${size}`
}
