/** `settle check`: verifies a data folder, and repairs what can be rebuilt. */
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { checkDatabase } from '../../check/database-check.ts'
import { repairDatabase } from '../../check/database-repair.ts'
import { type Fault, faultText } from '../../check/fault.ts'
import { checkIndex, designsIn } from '../../check/index-check.ts'
import { CallFailedError, NodeUnreachableError } from '../../cluster/channel.ts'
import { type OpenedKind, OpeningClient } from '../../cluster/opening-socket.ts'
import { mergedSettings } from '../../config/ini-text.ts'
import { ENGINES, FILES } from '../../config/setting-rules.ts'
import { environmentSettings, OperatorFiles } from '../../config/setting-sources.ts'
import { inspectPages } from '../../storage/file-check/inspect-file.ts'
import { checkFormat, readFormat } from '../../storage/files/folder-format.ts'
import { type FolderLock, tryLock } from '../../storage/files/folder-lock.ts'
import { type ListedStore, listStores } from '../../storage/files/store-listing.ts'
import { type BorrowedStore, BorrowedStores } from '../../storage/leases/borrowed-stores.ts'
import { LmdbEngine } from '../../storage/lmdb/lmdb-engine.ts'
import { FileDamagedError, StorageError } from '../../storage/storage-error.ts'
import type { SharedSnapshot } from '../../storage/store.ts'
import { signatureOfStore } from '../../views/index-store-name.ts'
import { CommandError, EXIT_CODES, messageOf } from '../command-error.ts'
import { countText, Progress } from '../progress.ts'
import type { Terminal } from '../terminal.ts'

const CHECK_USAGE = `Usage: settle check [options]

Verifies a data folder: the pages of its files, every record, revision tree, change, body, count
and rank of its databases, the digests of attachments, and the rows and rank trees of indexes.
Run it on the folder of a stopped server. On a running server it reads a snapshot of each
database and does not check pages; run it as the user of the server then. Faults are printed
by database and document. Databases that are kept in PostgreSQL are not in the folder: they
are not checked.

  --dir D          the data folder (./data)
  --index-dir D    the folder that contains view_indexes, if it is not the data folder
  --db NAME        only this database and its indexes; may be repeated
  --repair         rebuild what can be rebuilt: record fields, changes, counts, rank trees.
                   Rows that belong to no document are removed. Damaged indexes are dropped
                   and rebuilt with their next query. Back up the folder first. Only while
                   the server is stopped
  --all            print every fault, not only the first hundred of each database
  --quiet          no progress
  --help           print this

Exit codes: 0 no faults, or all were repaired · 1 failed · 3 faults were found.
`

const FLAGS = {
  dir: { type: 'string' },
  'index-dir': { type: 'string' },
  db: { type: 'string', multiple: true },
  repair: { type: 'boolean' },
  all: { type: 'boolean' },
  quiet: { type: 'boolean' },
  help: { type: 'boolean' },
} as const

/** Resolves to the exit code. */
export async function checkCommand(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = parsed(args)
  if (flags.help) {
    terminal.stdout.write(CHECK_USAGE)
    return 0
  }
  const folder = resolve(flags.dir ?? terminal.environment.SETTLE_SERVICE__DATABASE_DIR ?? './data')
  const format = await readFormat(folder)
  if (format === undefined) throw new CommandError(`${folder} is not a data folder: it has no file named format.`)
  checkFormat(folder, format)
  const locks = lockFolder(folder)
  const progress = new Progress(terminal.stderr, { quiet: flags.quiet ?? false })
  let check: FolderCheck | undefined
  try {
    if (!locks && flags.repair) throw new CommandError(`A server uses ${folder}. Stop it before a repair.`)
    if (!locks) progress.line('A server uses the folder: snapshots of its databases are checked, pages are not.')
    if (await hasOtherEngines(folder, terminal)) {
      progress.line('The settings name PostgreSQL for databases. Those are not in the folder, and are not checked.')
    }
    check = new FolderCheck({
      folder,
      indexFolder: join(resolve(flags['index-dir'] ?? folder), 'view_indexes'),
      isStopped: locks !== undefined,
      names: flags.db,
      mostLines: flags.all ? Number.POSITIVE_INFINITY : MOST_LINES,
      print: (line) => {
        progress.clear()
        terminal.stdout.write(`${line}\n`)
      },
      progress,
    })
    const found = await check.run()
    if (!flags.repair || found === 0) return found === 0 ? 0 : EXIT_CODES.damaged
    await check.repair()
    progress.line('Checking again.')
    return (await check.run()) === 0 ? 0 : EXIT_CODES.damaged
  } finally {
    progress.clear()
    check?.close()
    for (const lock of locks ?? []) lock.release()
  }
}

const MOST_LINES = 100

/** As far as the folder and the environment tell: a server may have been started with flags. */
async function hasOtherEngines(folder: string, { environment }: Terminal): Promise<boolean> {
  const files = await new OperatorFiles(folder).load().catch(() => [])
  const layers = [...files.map(({ settings }) => settings), environmentSettings(environment)]
  const settings = mergedSettings(layers)
  const others = [...(settings.get(ENGINES)?.values() ?? [])].filter((value) => value !== FILES)
  return others.length > 0 || settings.get('service')?.has('engine') === true
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: FLAGS }).values
  } catch (error) {
    throw new CommandError(`${messageOf(error)} Try settle check --help.`)
  }
}

/** Locks the folder, so that no server starts meanwhile. Undefined where one is running. */
function lockFolder(folder: string): FolderLock[] | undefined {
  const lease = tryLock(folder, 'lease')
  if (!lease) return undefined
  const lock = tryLock(folder, 'lock')
  if (lock) return [lock, lease]
  lease.release()
  return undefined
}

interface FolderCheckOptions {
  readonly folder: string
  readonly indexFolder: string
  readonly isStopped: boolean
  readonly names: readonly string[] | undefined
  readonly mostLines: number
  print(line: string): void
  readonly progress: Progress
}

class FolderCheck {
  readonly #options: FolderCheckOptions
  /** What a repair must rebuild. */
  #databases = new Set<string>()
  #indexes = new Set<string>()
  #faults = 0
  readonly #server: OpeningClient

  constructor(options: FolderCheckOptions) {
    this.#options = options
    this.#server = new OpeningClient(options.folder)
  }

  close(): void {
    this.#server.close()
  }

  /** Resolves to the number of faults. */
  async run(): Promise<number> {
    const { folder, indexFolder, names, progress } = this.#options
    this.#faults = 0
    this.#databases = new Set()
    this.#indexes = new Set()
    const indexes = await listStores(indexFolder).catch(() => [])
    const all = await listStores(folder)
    const missing = names?.find((name) => !all.some((each) => each.name === name))
    if (missing !== undefined) throw new CommandError(`${folder} has no database ${missing}.`)
    const databases = names ? all.filter(({ name }) => names.includes(name)) : all
    for (const database of databases) {
      const ofDatabase = indexes.filter(({ name }) => signatureOfStore(name, database.name) !== undefined)
      await this.#checkStores(database, ofDatabase)
    }
    const checked = `${countText(databases.length, 'database')} checked`
    if (this.#faults === 0) progress.line(`${checked}: nothing is wrong.`)
    else progress.warn(`${checked}: ${countText(this.#faults, 'fault')}.`)
    return this.#faults
  }

  /** The folder must be locked. If it is interrupted, the next check finds what is left to be done. */
  async repair(): Promise<void> {
    const { folder, indexFolder, progress } = this.#options
    const engine = await LmdbEngine.open({ folder })
    const indexEngine = await LmdbEngine.open({ folder: indexFolder })
    try {
      // First: nothing would show afterwards that they were built from rows which were damaged.
      for (const index of await indexEngine.list()) {
        const isOfDamaged = [...this.#databases].some((name) => signatureOfStore(index, name) !== undefined)
        if (!isOfDamaged && !this.#indexes.has(index)) continue
        await indexEngine.drop(index)
        progress.line(`${index}: dropped. It is rebuilt with its next query.`)
      }
      for (const name of this.#databases) {
        const rows = await repairDatabase(await engine.open(name))
        progress.line(`${name}: repaired, ${countText(rows, 'row')} written or removed.`)
      }
    } finally {
      await engine.close()
      await indexEngine.close()
    }
  }

  /** The server writes no commit to a file while it is opened. */
  async #openBeside(
    files: BorrowedStores,
    { name, path }: ListedStore,
    kind: OpenedKind,
  ): Promise<BorrowedStore | Gone> {
    const begunMs = performance.now()
    for (;;) {
      try {
        const reply = await this.#server.open(kind, { name, path }, () => files.open(name, path))
        return typeof reply === 'string' ? reply : reply.opened
      } catch (error) {
        if (error instanceof CallFailedError) throw new CommandError(`The server refuses the check. ${error.message}`)
        if (!(error instanceof NodeUnreachableError)) throw error
        if (performance.now() - begunMs > SERVER_WAIT_MS) throw new CommandError(unreachable(this.#options.folder))
        await new Promise((resolve) => setTimeout(resolve, SERVER_POLL_MS))
      }
    }
  }

  async #checkStores(database: ListedStore, indexes: readonly ListedStore[]): Promise<void> {
    const files = new BorrowedStores({ isReadOnly: true })
    const opened: { readonly snapshot: SharedSnapshot; close(): Promise<void> }[] = []
    try {
      const readable: { readonly index: ListedStore; readonly snapshot: SharedSnapshot }[] = []
      // Before the database: then no index is ahead of its snapshot.
      for (const index of indexes) {
        const snapshot = await this.#open(files, index, opened, { isIndex: true })
        if (snapshot) readable.push({ index, snapshot })
      }
      const snapshot = await this.#open(files, database, opened, { isIndex: false })
      if (!snapshot) return
      this.#options.progress.begin(database.name)
      const checked = await this.#guarded(database.name, () =>
        checkDatabase(
          snapshot,
          this.#listener(database.name, 'documents', () => this.#databases.add(database.name)),
        ),
      )
      if (!checked) return
      const designs = await designsIn(snapshot, checked.identity?.isPartitioned ?? false)
      for (const { index, snapshot: ofIndex } of readable) {
        const signature = signatureOfStore(index.name, database.name) ?? ''
        const listener = this.#listener(index.name, 'rows', () => this.#indexes.add(index.name))
        await this.#guarded(index.name, () =>
          checkIndex(ofIndex, signature, { ...checked, snapshot, designs }, listener),
        )
      }
    } finally {
      for (const { snapshot, close } of opened) {
        snapshot.release()
        await close()
      }
      await files.close()
    }
  }

  /** Undefined where the file is damaged or gone. */
  async #open(
    files: BorrowedStores,
    { name, path, aside }: ListedStore,
    opened: { readonly snapshot: SharedSnapshot; close(): Promise<void> }[],
    { isIndex, moves = 0 }: { readonly isIndex: boolean; readonly moves?: number },
  ): Promise<SharedSnapshot | undefined> {
    // A damaged index is dropped. A damaged file of a database must be restored from a backup.
    const listener = this.#listener(name, 'pages', () => isIndex && this.#indexes.add(name))
    try {
      if (aside !== undefined) throw new FileDamagedError(path, `It is set aside. ${aside}`)
      if (this.#options.isStopped) await this.#walkPages(name, path)
      const store = this.#options.isStopped
        ? files.open(name, path)
        : await this.#openBeside(files, { name, path, aside }, isIndex ? 'indexes' : 'databases')
      if (store === 'gone' && isIndex) return undefined
      if (store === 'gone' || store === 'moved') throw new UnusedFileError()
      try {
        const snapshot = store.store.snapshot()
        opened.push({ snapshot, close: async () => store[Symbol.asyncDispose]() })
        return snapshot
      } catch (error) {
        await store[Symbol.asyncDispose]()
        throw error
      }
    } catch (error) {
      if (error instanceof CommandError) throw error
      // The file may have been compacted or deleted meanwhile; the library may then throw any error.
      const mayHaveMoved = !this.#options.isStopped && (!existsSync(path) || !(error instanceof StorageError))
      if (mayHaveMoved && moves < MOST_MOVES) {
        // The server has not taken the new file over yet, or not removed the old one.
        if (error instanceof UnusedFileError) await new Promise((resolve) => setTimeout(resolve, MOVE_POLL_MS))
        const moved = (await listStores(dirname(path))).find((each) => each.name === name)
        return moved && this.#open(files, moved, opened, { isIndex, moves: moves + 1 })
      }
      if (error instanceof UnusedFileError) {
        this.#options.progress.warn(`${name}: the server does not use ${path}. It was not checked.`)
        return undefined
      }
      if (!(error instanceof StorageError)) throw error
      listener.fault({ problem: error.message, isRepairable: isIndex })
      return undefined
    }
  }

  async #walkPages(name: string, path: string): Promise<void> {
    this.#options.progress.begin(name)
    let steps = 0
    for (const _step of inspectPages(path)) {
      steps++
      this.#options.progress.update(0, `${steps} steps through its pages`)
      if (steps % STEPS_A_TURN === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** An unreadable page ends the check of its own file only. */
  async #guarded<T>(name: string, check: () => Promise<T>): Promise<T | undefined> {
    try {
      return await check()
    } catch (error) {
      this.#listener(name, '', () => {}).fault({ problem: messageOf(error), isRepairable: false })
      return undefined
    }
  }

  #listener(name: string, what: string, onRepairable: () => void) {
    const { mostLines, print, progress } = this.#options
    let lines = 0
    return {
      fault: (fault: Fault) => {
        this.#faults++
        lines++
        if (fault.isRepairable) onRepairable()
        if (lines <= mostLines)
          print(`${name}: ${faultText(fault)}${fault.isRepairable ? '' : ' It cannot be repaired.'}`)
        else if (lines === mostLines + 1) print(`${name}: there is more; --all prints it.`)
      },
      progress: (share: number) => progress.update(share, what),
    }
  }
}

const STEPS_A_TURN = 64

/** A store that the server does not have, or has in another file. */
type Gone = 'moved' | 'gone'

class UnusedFileError extends Error {}

/** A server that its supervisor restarts is back sooner. */
const SERVER_WAIT_MS = 15_000
const SERVER_POLL_MS = 100

function unreachable(folder: string): string {
  return `The server that uses ${folder} cannot be reached, so its files cannot be opened. Stop it, or run the check on its machine.`
}

/** How often a file that was compacted meanwhile is opened again. */
const MOST_MOVES = 100
const MOVE_POLL_MS = 50
