/**
 * Looks for damaged files, and sets them aside. A file that is set aside is not opened any more, by this process or the
 * next ones, until an operator removes the note beside it.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FileLedger } from '../file-check/file-ledger.ts'
import { inspectFile, inspectPages } from '../file-check/inspect-file.ts'
import { unlessReadOnly } from '../files/file-failures.ts'
import { ASIDE_ENDING, asidePath } from '../files/store-file.ts'
import { FileDamagedError } from '../storage-error.ts'
import type { FileReports } from './lmdb-errors.ts'
import type { LmdbStore } from './lmdb-store.ts'
import type { OpenFiles } from './open-files.ts'

/** The files of an engine, as far as they are inspected. */
export interface InspectedFiles {
  readonly folder: string
  readonly ledger: FileLedger
  readonly open: OpenFiles
  readonly reports: FileReports
  /** Ends every inspection. */
  readonly isClosed: () => boolean
  readonly stores: () => readonly LmdbStore[]
  /** The store that a file belongs to, whether it is the newest one or not. */
  readonly storeOf: (path: string) => LmdbStore | undefined
}

/** Files that may be what the process before this one crashed on: it had them open. */
export interface SuspectFiles {
  readonly files: readonly string[]
  /** Those of them that were open at an earlier crash too, and were not inspected to their end after it. */
  readonly unwalked: ReadonlySet<string>
  /** How many pages are inspected after a first crash. */
  readonly pageLimit: number
}

/** Files, or pages of one, that are inspected before others have a turn. */
const FILES_A_TURN = 16
const PAGES_A_TURN = 64

export class FileInspection {
  readonly #files: InspectedFiles

  constructor(files: InspectedFiles) {
    this.#files = files
  }

  /** Sets aside again what an earlier process set aside. */
  async readNotes(): Promise<void> {
    const { folder, open, storeOf } = this.#files
    for (const fileName of await readdir(folder)) {
      if (!fileName.endsWith(ASIDE_ENDING)) continue
      const path = join(folder, fileName.slice(0, -ASIDE_ENDING.length))
      // The store was dropped or rewritten while the note could not be removed.
      if (storeOf(path)?.path !== path) await unlessReadOnly(() => rm(asidePath(path), { force: true }))
      else open.refuse(asideError(path, (await readFile(asidePath(path), 'utf8')).trim()))
    }
  }

  async setAside(path: string, problem: string): Promise<FileDamagedError> {
    const { open, reports } = this.#files
    const error = asideError(path, problem)
    open.refuse(error)
    // On a full disk it is set aside for as long as the process lives.
    await writeFile(asidePath(path), `${problem}\n`).catch(() => {})
    reports.damaged(error)
    return error
  }

  /** Reports damaged files of all stores. The pages of those that are suspect are inspected first. */
  async inspectAll(suspects: SuspectFiles): Promise<void> {
    const { open, reports, isClosed, stores } = this.#files
    await this.#examineSuspects(suspects)
    let looked = 0
    for (const store of stores()) {
      if (++looked % FILES_A_TURN === 0) await nextTurn()
      if (isClosed()) return
      // One that is open was inspected, and its meta pages are the library's.
      if (store.dropped || open.isOpen(store.path)) continue
      try {
        const { repaired } = inspectFile(store.path)
        if (repaired) reports.repaired(store.path, repaired)
      } catch (error) {
        if (error instanceof FileDamagedError) reports.damaged(error)
        // Else the system has no descriptors left, or the like: the file is inspected again when it is opened.
      }
    }
  }

  /** Inspects all pages of a store. A damaged one is set aside. Throws `FileDamagedError`; resolves to the number of pages. */
  async examine(store: LmdbStore, pageLimit: number): Promise<number> {
    const { path } = store
    // Keeps the pages of its snapshot unchanged during concurrent writes.
    using _ = store.snapshot()
    let pages = 0
    try {
      for (const _page of inspectPages(path)) {
        if (++pages % PAGES_A_TURN === 0) await nextTurn()
        if (pages >= pageLimit || this.#files.isClosed() || store.dropped) break
      }
      return pages
    } catch (error) {
      if (error instanceof FileDamagedError) throw await this.setAside(path, error.problem)
      throw error
    }
  }

  /** After a first crash up to a limit. A file that is open at a second one is inspected to its end. */
  async #examineSuspects({ files, unwalked, pageLimit }: SuspectFiles): Promise<void> {
    const { ledger, storeOf, isClosed } = this.#files
    let left = pageLimit
    for (const fileName of files) {
      const store = storeOf(fileName)
      if (isClosed()) return
      if (!store) continue
      if (unwalked.has(fileName)) {
        await this.examine(store, Number.POSITIVE_INFINITY).catch(() => {})
        continue
      }
      // Until all of it is inspected: the process may crash meanwhile.
      ledger.unwalked(fileName)
      if (left <= 0) continue
      // What is wrong is reported where it is found.
      left -= await this.examine(store, left).catch(() => 1)
      if (left > 0) ledger.walked(fileName)
    }
  }
}

function asideError(path: string, problem: string): FileDamagedError {
  const wayBack = `It is set aside: to have it used again, remove ${basename(asidePath(path))} and restart the server.`
  return new FileDamagedError(path, `${problem} ${wayBack}`)
}

/** A file that cannot be used is asked for again and again: it is reported once. */
export function onceForEach(reports: FileReports | undefined): FileReports {
  const reported = new Set<string>()
  return {
    damaged: (error) => {
      if (reported.has(error.message)) return
      // Some thousand messages are kept; beyond that one may be reported again.
      if (reported.size >= MOST_REPORTED) reported.clear()
      reported.add(error.message)
      reports?.damaged(error)
    },
    repaired: (path, notice) => reports?.repaired(path, notice),
  }
}

const MOST_REPORTED = 10_000
