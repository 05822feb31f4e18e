/** The log of a server: its level, its file and the limits of that follow the configuration while it runs. */
import { resolve } from 'node:path'
import type { Configuration } from '../../config/configuration.ts'
import { joinedLog, LineLog, type Log, logLevelOf, type MessageLevel } from './log.ts'
import { LogFile, type LogFileLimits, LogMemory, type LogStore } from './log-store.ts'

export class ServerLog {
  /** For everybody who has something to tell. */
  readonly log: Log
  readonly #folder: string | undefined
  readonly #lines: LineLog
  readonly #operator: Log
  #store: LogStore = new LogMemory()

  /** Lines of relative files are kept in the folder; without one they stay in memory. The operator's log hears all. */
  static async open(folder: string | undefined, configuration: Configuration, operator: Log): Promise<ServerLog> {
    const log = new ServerLog(folder, operator)
    await log.configure(configuration)
    return log
  }

  private constructor(folder: string | undefined, operator: Log) {
    this.#folder = folder
    this.#operator = operator
    this.#lines = new LineLog('info', { write: (line) => this.#store.write(line) })
    this.log = joinedLog(this.#lines, operator)
  }

  writes(level: MessageLevel): boolean {
    return this.#lines.writes(level)
  }

  /** Takes over what the configuration says. A file that cannot be opened leaves the one before in use. */
  async configure(configuration: Configuration): Promise<void> {
    this.#lines.level = logLevelOf(configuration.text('log', 'level'))
    const limits = {
      fileBytes: configuration.integer('log', 'max_file_size'),
      olderFiles: configuration.integer('log', 'max_files'),
    }
    const path = this.#pathOf(configuration.get('log', 'file'))
    const current = this.#store
    if (current instanceof LogFile && current.path === path) current.limits = limits
    else if (path !== undefined) await this.#moveTo(path, limits)
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

  async #moveTo(path: string, limits: LogFileLimits): Promise<void> {
    try {
      const file = await LogFile.open(path, limits, (reason) =>
        this.#operator.error('The log cannot be written.', { file: path, error: reason }),
      )
      const before = this.#store
      this.#store = file
      await before.close()
    } catch (error) {
      this.log.error('The log file cannot be opened.', { file: path, error: String(error) })
    }
  }
}
