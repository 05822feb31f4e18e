/**
 * Compacts databases and their indexes by the rules of the configuration. It checks all of them at an interval and compacts
 * those whose rule holds, one after the other. Without rules it does nothing. Changed rules apply at once.
 */
import type { Configuration, SettingChange } from '../../config/configuration.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { DatabaseInformation } from '../database-engine.ts'
import { type CompactionRule, DEFAULT_RULE, isInside, parseCompactionRule, timeLeftMs } from './compaction-rules.ts'

/** What the daemon needs of the databases. */
export interface CompactableDatabases {
  listReachable(): Promise<string[]>
  has(name: string): boolean
  /** Whether it was used since the start. */
  isOpen(name: string): boolean
  get(name: string): Promise<Compactable>
}

/** A database, or an index. */
export interface Compactable {
  information(): Promise<CompactableSizes>
  compact(): Promise<void>
  compacted(): Promise<void>
  cancelCompaction(): Promise<void>
}

export interface CompactableIndex extends Compactable {
  /** Of the design document. */
  readonly id: string
}

interface CompactableSizes
  extends Pick<DatabaseInformation, 'isCompacting' | 'fileBytes' | 'dataBytes' | 'compactedTo'> {
  /** An index is left alone meanwhile. */
  readonly isUpdating?: boolean
  /** Of a database. */
  readonly updateSequence?: number
}

export interface CompactionOptions {
  readonly configuration: Pick<Configuration, 'section' | 'integer' | 'onChange'>
  readonly databases: CompactableDatabases
  /** The indexes of a database that are there. */
  indexesOf(database: string): Promise<readonly CompactableIndex[]>
  readonly clock: Clock
  readonly log: Log
  /** The room that is left where the databases are. */
  freeBytes(): Promise<number>
}

export class CompactionDaemon {
  readonly #options: CompactionOptions
  readonly #forget: () => void
  #rules: ReadonlyMap<string, CompactionRule>
  #timer: NodeJS.Timeout | undefined
  #round: Promise<void> | undefined
  readonly #compacting = new Set<Compactable>()
  /** The update sequences at which the indexes of databases were checked. */
  readonly #checked = new WeakMap<Compactable, number>()
  #isClosed = false

  /** Looks for the first time after an interval: a start has enough to do. */
  constructor(options: CompactionOptions) {
    this.#options = options
    this.#rules = this.#readRules()
    this.#forget = options.configuration.onChange((change) => this.#follow(change))
    this.#wait()
  }

  /** Checks all databases now, or joins the check that is running; resolves when all that were due are compacted. */
  check(): Promise<void> {
    this.#round ??= this.#checkAll()
      .catch((error: unknown) => {
        this.#options.log.error('The databases were not checked for compaction.', { error: String(error) })
      })
      .finally(() => {
        this.#round = undefined
        this.#wait()
      })
    return this.#round
  }

  /** Gives up the compaction under way; resolves when nothing of the daemon runs. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#forget()
    clearTimeout(this.#timer)
    await Promise.all([...this.#compacting].map((each) => each.cancelCompaction()))
    await this.#round
  }

  #follow({ section, key }: SettingChange): void {
    if (section === 'compaction_daemon' && key === 'check_interval') this.#wait()
    if (section !== 'compactions') return
    const wasOff = this.#rules.size === 0
    this.#rules = this.#readRules(key)
    // Who turns it on wants to see it work.
    if (wasOff) this.#wait(0)
  }

  #wait(delayMs = this.#intervalMs()): void {
    clearTimeout(this.#timer)
    if (this.#isClosed || this.#rules.size === 0) return
    this.#timer = setTimeout(() => this.check(), delayMs)
    this.#timer.unref()
  }

  #intervalMs(): number {
    const seconds = this.#options.configuration.integer('compaction_daemon', 'check_interval')
    return Math.min(seconds * 1000, LONGEST_TIMER_MS)
  }

  /** Complains only of a rule that is new, where one is named. */
  #readRules(changed?: string): Map<string, CompactionRule> {
    const rules = new Map<string, CompactionRule>()
    const { configuration, log } = this.#options
    for (const [name, text] of configuration.section('compactions')) {
      const rule = parseCompactionRule(text)
      if (rule) rules.set(name, rule)
      else if (changed === undefined || changed === name) {
        log.error('A malformed compaction rule is ignored.', { database: name, rule: text })
      }
    }
    return rules
  }

  async #checkAll(): Promise<void> {
    const { databases, log } = this.#options
    for (const name of await databases.listReachable()) {
      // Read for each database: a round may take hours, and rules change meanwhile. A database that is not in use is
      // not opened for the default rule: there may be thousands.
      const rule = this.#rules.get(name) ?? (databases.isOpen(name) ? this.#rules.get(DEFAULT_RULE) : undefined)
      if (this.#isClosed) return
      if (!rule || !this.#isTimeOf(rule)) continue
      try {
        await this.#checkOne(name, rule)
      } catch (error) {
        if (!databases.has(name)) continue
        log.error('A database was not checked for compaction.', { database: name, error: String(error) })
      }
    }
  }

  async #checkOne(name: string, rule: CompactionRule): Promise<void> {
    const database = await this.#options.databases.get(name)
    const checks = [
      () => this.#checkFile(database, rule.fragmentationPercent, rule, { database: name }),
      () => this.#checkIndexes(name, database, rule),
    ]
    if (rule.areIndexesParallel) await Promise.all(checks.map((check) => check()))
    else for (const check of checks) await check()
  }

  /** Indexes of a database that did not change since the last round are as they were. */
  async #checkIndexes(name: string, database: Compactable, rule: CompactionRule): Promise<void> {
    const { updateSequence } = await database.information()
    if (updateSequence !== undefined && this.#checked.get(database) === updateSequence) return
    if (updateSequence !== undefined) this.#checked.set(database, updateSequence)
    for (const index of await this.#options.indexesOf(name)) {
      if (this.#isClosed || !this.#isTimeOf(rule)) return
      const about = { database: name, design_document: index.id }
      await this.#checkFile(index, rule.indexFragmentationPercent, rule, about)
    }
  }

  async #checkFile(
    file: Compactable,
    percent: number,
    rule: CompactionRule,
    about: Readonly<Record<string, string>>,
  ): Promise<void> {
    const { log, configuration } = this.#options
    const sizes = await file.information()
    const fragmentation = fragmentationPercent(sizes)
    if (sizes.isCompacting || sizes.isUpdating || fragmentation < percent || !hasGarbage(sizes, rule)) return
    if (sizes.fileBytes < configuration.integer('compaction_daemon', 'min_file_size')) return
    const neededBytes = 2 * sizes.dataBytes
    const freeBytes = await this.#options.freeBytes()
    if (freeBytes < neededBytes) {
      log.warn('A file was not compacted: there is too little disk space.', {
        ...about,
        neededBytes,
        freeBytes,
      })
      return
    }
    if (this.#isClosed) return
    log.info('The compaction daemon compacts a file.', { ...about, fragmentation: Math.floor(fragmentation) })
    await this.#compact(file, rule)
  }

  async #compact(file: Compactable, { window, isWindowStrict }: CompactionRule): Promise<void> {
    const leftMs = window && isWindowStrict ? timeLeftMs(window, this.#options.clock.nowMs()) : undefined
    const windowEnd = leftMs === undefined ? undefined : setTimeout(() => file.cancelCompaction(), leftMs)
    windowEnd?.unref()
    this.#compacting.add(file)
    try {
      await file.compact()
      await file.compacted()
    } finally {
      this.#compacting.delete(file)
      clearTimeout(windowEnd)
    }
  }

  #isTimeOf({ window }: CompactionRule): boolean {
    return !window || isInside(window, this.#options.clock.nowMs())
  }
}

/** A timer that is asked for more rings at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

function fragmentationPercent({ fileBytes, dataBytes }: CompactableSizes): number {
  return fileBytes === 0 ? 0 : (100 * (fileBytes - dataBytes)) / fileBytes
}

/**
 * Many small documents take much more room than their bodies: such a file looks fragmented right after a compaction. What
 * the last compaction made of the data says how large the file would be after another one.
 */
function hasGarbage(
  { fileBytes, dataBytes, compactedTo }: CompactableSizes,
  { garbagePercent }: CompactionRule,
): boolean {
  if (!compactedTo || compactedTo.dataBytes === 0) return true
  const expectedBytes = (compactedTo.fileBytes * dataBytes) / compactedTo.dataBytes
  return 100 * (fileBytes - expectedBytes) > garbagePercent * fileBytes
}
