/**
 * Compacts databases by the rules of the configuration: from time to time it looks at all of them, and compacts those
 * whose rule holds, one after the other. Without rules it does nothing. What is configured counts at once.
 */
import type { Configuration, SettingChange } from '../config/configuration.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import { type CompactionRule, DEFAULT_RULE, parseCompactionRule } from './compaction-rules.ts'
import type { DatabaseInformation } from './database.ts'
import { isInside, timeLeftMs } from './time-window.ts'

/** What the daemon needs of the databases. */
export interface CompactableDatabases {
  list(): Promise<string[]>
  has(name: string): boolean
  get(name: string): Promise<CompactableDatabase>
}

export interface CompactableDatabase {
  information(): Promise<CompactableSizes>
  compact(): void
  compacted(): Promise<void>
  cancelCompaction(): Promise<void>
}

type CompactableSizes = Pick<DatabaseInformation, 'isCompacting' | 'fileBytes' | 'dataBytes' | 'compactedTo'>

export interface CompactionSurroundings {
  readonly configuration: Pick<Configuration, 'section' | 'integer' | 'onChange'>
  readonly databases: CompactableDatabases
  readonly clock: Clock
  readonly log: Log
  /** The room that is left where the databases are. */
  freeBytes(): Promise<number>
}

export class CompactionDaemon {
  readonly #surroundings: CompactionSurroundings
  readonly #forget: () => void
  #rules: ReadonlyMap<string, CompactionRule>
  #timer: NodeJS.Timeout | undefined
  #round: Promise<void> | undefined
  #compacting: CompactableDatabase | undefined
  #isClosed = false

  /** Looks for the first time after an interval: a start has enough to do. */
  constructor(surroundings: CompactionSurroundings) {
    this.#surroundings = surroundings
    this.#rules = this.#readRules()
    this.#forget = surroundings.configuration.onChange((change) => this.#follow(change))
    this.#wait()
  }

  /** Looks at all databases now, or joins who does; resolves when all that were due are compacted. */
  check(): Promise<void> {
    this.#round ??= this.#checkAll()
      .catch((error: unknown) => {
        this.#surroundings.log.error('The databases were not checked for compaction.', { error: String(error) })
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
    await this.#compacting?.cancelCompaction()
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
    const seconds = this.#surroundings.configuration.integer('compaction_daemon', 'check_interval')
    return Math.min(seconds * 1000, LONGEST_TIMER_MS)
  }

  /** Complains only of a rule that is new, where one is named. */
  #readRules(changed?: string): Map<string, CompactionRule> {
    const rules = new Map<string, CompactionRule>()
    const { configuration, log } = this.#surroundings
    for (const [name, text] of configuration.section('compactions')) {
      const rule = parseCompactionRule(text)
      if (rule) rules.set(name, rule)
      else if (changed === undefined || changed === name) {
        log.error('A compaction rule is ignored, since it is malformed.', { database: name, rule: text })
      }
    }
    return rules
  }

  async #checkAll(): Promise<void> {
    const { databases, log } = this.#surroundings
    for (const name of await databases.list()) {
      // Read for each database: a round may take hours, and rules change meanwhile.
      const rule = this.#rules.get(name) ?? this.#rules.get(DEFAULT_RULE)
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
    const { databases, log, configuration } = this.#surroundings
    const database = await databases.get(name)
    const sizes = await database.information()
    const fragmentation = fragmentationPercent(sizes)
    if (sizes.isCompacting || fragmentation < rule.fragmentationPercent || !hasChanged(sizes)) return
    if (sizes.fileBytes < configuration.integer('compaction_daemon', 'min_file_size')) return
    const neededBytes = 2 * sizes.dataBytes
    const freeBytes = await this.#surroundings.freeBytes()
    if (freeBytes < neededBytes) {
      log.warn('A database is not compacted, since there is too little room on the disk.', {
        database: name,
        neededBytes,
        freeBytes,
      })
      return
    }
    if (this.#isClosed) return
    log.info('A database is compacted by its rule.', { database: name, fragmentation: Math.floor(fragmentation) })
    await this.#compact(database, rule)
  }

  async #compact(database: CompactableDatabase, { window, isWindowStrict }: CompactionRule): Promise<void> {
    const leftMs = window && isWindowStrict ? timeLeftMs(window, this.#surroundings.clock.nowMs()) : undefined
    const windowEnd = leftMs === undefined ? undefined : setTimeout(() => database.cancelCompaction(), leftMs)
    windowEnd?.unref()
    this.#compacting = database
    try {
      database.compact()
      await database.compacted()
    } finally {
      this.#compacting = undefined
      clearTimeout(windowEnd)
    }
  }

  #isTimeOf({ window }: CompactionRule): boolean {
    return !window || isInside(window, this.#surroundings.clock.nowMs())
  }
}

/** A timer that is asked for more rings at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

function fragmentationPercent({ fileBytes, dataBytes }: CompactableSizes): number {
  return fileBytes === 0 ? 0 : (100 * (fileBytes - dataBytes)) / fileBytes
}

/** So much of a file must be new, or so much of the data gone, since the last compaction. */
const CHANGED_SHARE = 0.1

/**
 * Many small documents take much more room than their bodies: such a file looks fragmented right after a compaction, and
 * without this it would be written anew at every check.
 */
function hasChanged({ fileBytes, dataBytes, compactedTo }: CompactableSizes): boolean {
  if (!compactedTo) return true
  const hasGrown = fileBytes > compactedTo.fileBytes * (1 + CHANGED_SHARE)
  return hasGrown || dataBytes < compactedTo.dataBytes * (1 - CHANGED_SHARE)
}
