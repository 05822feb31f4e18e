/**
 * The log of a server. Its level, its format, its writer, its file and the limits of that follow the configuration while it
 * runs. Lines are kept so that they can be read again: in a file that is rotated when it is full, or in memory.
 */

import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Configuration } from '../../config/configuration.ts'
import {
  joinedLog,
  LineLog,
  type LineSink,
  type Log,
  type LogFormat,
  logLevelOf,
  type MessageLevel,
  silentLog,
} from './log.ts'

export class ServerLog {
  /** The log that parts of the server write to. */
  readonly log: Log
  readonly #folder: string | undefined
  readonly #lines: LineLog
  readonly #operator: Log
  #store: LogStore = new LogMemory()
  /** All lines are on stderr, where the operator's messages are too: they need not be written twice. */
  #isOnStderr = false

  /**
   * Lines of relative files are kept in the folder; without one they stay in memory. The operator's log gets all of
   * them.
   */
  static async open(folder: string | undefined, configuration: Configuration, operator: Log): Promise<ServerLog> {
    const log = new ServerLog(folder, operator)
    await log.configure(configuration)
    return log
  }

  /** The log of a node that does not keep its lines itself. */
  static relayed(configuration: Configuration, operator: Log, sink: LineSink): ServerLog {
    const log = new ServerLog(undefined, operator)
    log.#store = new RelayedLines(sink)
    log.#lines.level = logLevelOf(configuration.text('log', 'level'))
    log.#lines.format = configuration.get('log', 'format') === 'json' ? 'json' : 'text'
    log.#isOnStderr = configuration.get('log', 'writer') === 'stderr'
    return log
  }

  private constructor(folder: string | undefined, operator: Log) {
    this.#folder = folder
    this.#operator = operator
    this.#lines = new LineLog('info', { write: (line) => this.#store.write(line) })
    const target = (): Log => (this.#isOnStderr ? silentLog : operator)
    this.log = joinedLog(this.#lines, {
      debug: (message, details) => target().debug(message, details),
      info: (message, details) => target().info(message, details),
      warn: (message, details) => target().warn(message, details),
      error: (message, details) => target().error(message, details),
    })
  }

  writes(level: MessageLevel): boolean {
    return this.#lines.writes(level)
  }

  /** Messages that were written, by level. */
  get counts(): Readonly<Record<MessageLevel, number>> {
    return this.#lines.counts
  }

  get format(): LogFormat {
    return this.#lines.format
  }

  /** Takes over what the configuration says. A file that cannot be opened leaves the one before in use. */
  async configure(configuration: Configuration): Promise<void> {
    this.#lines.level = logLevelOf(configuration.text('log', 'level'))
    this.#lines.format = configuration.get('log', 'format') === 'json' ? 'json' : 'text'
    if (this.#operator instanceof LineLog) this.#operator.format = this.#lines.format
    const limits = {
      fileBytes: configuration.integer('log', 'max_file_size'),
      olderFiles: configuration.integer('log', 'max_files'),
    }
    this.#isOnStderr = configuration.get('log', 'writer') === 'stderr'
    const current = this.#store
    if (this.#isOnStderr) {
      if (!(current instanceof StderrLines)) await this.#replaceStore(new StderrLines())
      return
    }
    const path = this.#pathOf(configuration.get('log', 'file'))
    if (current instanceof LogFile && current.path === path) current.limits = limits
    else if (path !== undefined) await this.#moveTo(path, limits)
    else if (current instanceof StderrLines) await this.#replaceStore(new LogMemory())
  }

  /** Lines of another node, as they are. */
  append(lines: string): void {
    this.#store.write(lines)
  }

  tail(bytes: number, offset: number): Promise<Buffer> {
    return this.#store.tail(bytes, offset)
  }

  async close(): Promise<void> {
    await this.#store.close()
  }

  #pathOf(file: string | undefined): string | undefined {
    return this.#folder === undefined || file === undefined ? undefined : resolve(this.#folder, file)
  }

  async #replaceStore(store: LogStore): Promise<void> {
    const before = this.#store
    this.#store = store
    await before.close()
  }

  async #moveTo(path: string, limits: LogFileLimits): Promise<void> {
    try {
      const file = await LogFile.open(path, limits, {
        onFailure: (reason) => this.#operator.error('The log cannot be written.', { file: path, error: reason }),
        lossLine: (lines) => this.#lines.line('warn', 'Lines of the log were lost.', { lines }),
      })
      await this.#replaceStore(file)
    } catch (error) {
      this.log.error('The log file cannot be opened.', { file: path, error: String(error) })
    }
  }
}

/** Standard error, for a container or a service manager that collects it. The last lines are kept in memory. */
class StderrLines implements LogStore {
  readonly #kept = new LogMemory()

  constructor() {
    // The reader may be gone; the server continues.
    if (process.stderr.listenerCount('error') === 0) process.stderr.on('error', () => {})
  }

  write(line: string): void {
    process.stderr.write(line)
    this.#kept.write(line)
  }

  tail(bytes: number, offset: number): Promise<Buffer> {
    return this.#kept.tail(bytes, offset)
  }

  async flush(): Promise<void> {}

  async close(): Promise<void> {}
}

export interface LogStore extends LineSink {
  /** At most `bytes` bytes that end `offset` bytes before the end. */
  tail(bytes: number, offset: number): Promise<Buffer>
  /** Everything that was written so far is in the file when it resolves. */
  flush(): Promise<void>
  close(): Promise<void>
}

export interface LogFileLimits {
  readonly fileBytes: number
  /** Older files that are kept, as `<file>.1` and so on. */
  readonly olderFiles: number
}

/** What a log file has to say of itself. */
export interface LogFileNotices {
  onFailure(reason: string): void
  /** The line in place of lost ones. */
  lossLine(lines: number): string
}

/** How long lines wait for a disk that does not take them; then they are lost, and counted. */
const WAITING_LIMIT_CHARACTERS = 8 * 1024 * 1024

const GATHERING_MS = 50

export class LogFile implements LogStore {
  readonly path: string
  limits: LogFileLimits
  readonly #notices: LogFileNotices
  #waiting: string[] = []
  #waitingCharacters = 0
  #lost = 0
  #file: FileHandle | undefined
  #sizeBytes = 0
  #writing: Promise<void> | undefined
  #failed = false
  #hurry: () => void = () => {}

  /** Throws when the file cannot be opened for appending. */
  static async open(path: string, limits: LogFileLimits, notices: LogFileNotices): Promise<LogFile> {
    const log = new LogFile(path, limits, notices)
    await mkdir(dirname(path), { recursive: true })
    await log.#open()
    return log
  }

  private constructor(path: string, limits: LogFileLimits, notices: LogFileNotices) {
    this.path = path
    this.limits = limits
    this.#notices = notices
  }

  write(line: string): void {
    if (this.#waitingCharacters > WAITING_LIMIT_CHARACTERS) {
      this.#lost++
      return
    }
    this.#waiting.push(line)
    this.#waitingCharacters += line.length
    this.#writing ??= this.#drain()
  }

  async tail(bytes: number, offset: number): Promise<Buffer> {
    await this.flush()
    const file = await open(this.path, 'r').catch((error: NodeJS.ErrnoException) => {
      // The file was moved away, for example by logrotate.
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    if (!file) return Buffer.alloc(0)
    try {
      const { size } = await file.stat()
      const start = Math.max(0, size - bytes - offset)
      const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(bytes, size - start)), { position: start })
      return buffer.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  }

  async flush(): Promise<void> {
    while (this.#writing) {
      this.#hurry()
      await this.#writing
    }
  }

  async close(): Promise<void> {
    await this.flush()
    await this.#file?.close()
    this.#file = undefined
  }

  async #drain(): Promise<void> {
    await this.#gather()
    const lines = this.#waiting
    if (this.#lost > 0) lines.push(this.#notices.lossLine(this.#lost))
    this.#waiting = []
    this.#waitingCharacters = 0
    this.#lost = 0
    await this.#append(Buffer.from(lines.join('')))
    // Lines that arrive in the meantime are collected for the next write.
    this.#writing = this.#waiting.length > 0 ? this.#drain() : undefined
  }

  /** Lines are written in batches: a write for each line would cost more than the requests that they log. */
  #gather(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, GATHERING_MS)
      this.#hurry = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  async #append(bytes: Buffer): Promise<void> {
    try {
      if (!this.#file) await this.#open()
      await this.#file?.appendFile(bytes)
      this.#sizeBytes += bytes.length
      if (this.#sizeBytes >= this.limits.fileBytes) await this.#rotate()
      this.#failed = false
    } catch (error) {
      // Reported once: a full disk stays full for many lines.
      if (!this.#failed) this.#notices.onFailure(error instanceof Error ? error.message : String(error))
      this.#failed = true
    }
  }

  async #open(): Promise<void> {
    this.#file = await open(this.path, 'a', 0o640)
    this.#sizeBytes = (await this.#file.stat()).size
  }

  async #rotate(): Promise<void> {
    await this.#file?.close()
    this.#file = undefined
    const { olderFiles } = this.limits
    if (olderFiles === 0) await rm(this.path, { force: true })
    for (let number = olderFiles; number > 0; number--) {
      const younger = number === 1 ? this.path : `${this.path}.${number - 1}`
      await rename(younger, `${this.path}.${number}`).catch(() => {})
    }
    await this.#open()
  }
}

/** Lines that another node keeps. */
class RelayedLines implements LogStore {
  readonly #sink: LineSink

  constructor(sink: LineSink) {
    this.#sink = sink
  }

  write(line: string): void {
    this.#sink.write(line)
  }

  async tail(): Promise<Buffer> {
    return Buffer.alloc(0)
  }

  async flush(): Promise<void> {}

  async close(): Promise<void> {}
}

const MEMORY_LIMIT_BYTES = 1024 * 1024

/** For a server that leaves nothing behind: the last megabyte or two. */
export class LogMemory implements LogStore {
  #older = ''
  #newer = ''

  write(line: string): void {
    this.#newer += line
    if (this.#newer.length < MEMORY_LIMIT_BYTES) return
    this.#older = this.#newer
    this.#newer = ''
  }

  async tail(bytes: number, offset: number): Promise<Buffer> {
    const all = Buffer.from(this.#older + this.#newer)
    const start = Math.max(0, all.length - bytes - offset)
    return all.subarray(start, start + bytes)
  }

  async flush(): Promise<void> {}

  async close(): Promise<void> {}
}
