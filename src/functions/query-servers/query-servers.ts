/**
 * The query servers of the configuration, `language = command`. Only commands known at the start run. Settings changed over
 * HTTP can remove a language and restart its processes, but not choose a command.
 */
import type { Configuration } from '../../config/configuration.ts'
import type { Log } from '../../runtime/log/log.ts'
import { unknownLanguage } from '../function-error.ts'
import { QueryServerFunctions, type QueryServerSettings } from './query-server-functions.ts'

export interface QueryServersOptions {
  readonly configuration: Configuration
  readonly log: Log
}

const SECTION = 'query_servers'
const SETTINGS_SECTION = 'query_server_config'

/** The value of languages that the server runs itself. */
const BUILT_IN = 'built-in'

export class QueryServers {
  readonly #configuration: Configuration
  readonly #log: Log
  readonly #languages = new Map<string, QueryServerFunctions>()
  readonly #stopListening: () => void
  /** Languages whose command was set at run time: logged once for each change. */
  readonly #refused = new Set<string>()

  constructor({ configuration, log }: QueryServersOptions) {
    this.#configuration = configuration
    this.#log = log
    this.#stopListening = configuration.onChange(({ section }) => {
      if (section !== SECTION && section !== SETTINGS_SECTION) return
      this.#refused.clear()
      for (const functions of this.#languages.values()) functions.restart()
    })
  }

  /** Undefined for a language that has no command. Processes are started when they are needed. */
  find(language: string): QueryServerFunctions | undefined {
    if (this.#command(language) === undefined) return undefined
    const known = this.#languages.get(language)
    if (known) return known
    const functions = new QueryServerFunctions({
      language,
      command: () => {
        const command = this.#command(language)
        if (command === undefined) throw unknownLanguage(language)
        return command
      },
      settings: () => querySettings(this.#configuration),
      log: this.#log,
    })
    this.#languages.set(language, functions)
    return functions
  }

  async close(): Promise<void> {
    this.#stopListening()
    await Promise.all([...this.#languages.values()].map((functions) => functions.close()))
  }

  #command(language: string): string | undefined {
    const command = this.#configuration.get(SECTION, language)
    if (command === undefined || command === '' || command === BUILT_IN) return undefined
    if (command === this.#configuration.startupSection(SECTION).get(language)) return command
    if (!this.#refused.has(language)) {
      this.#refused.add(language)
      this.#log.warn('A query server command that was set at run time is ignored.', {
        setting: `${SECTION}/${language}`,
      })
    }
    return undefined
  }
}

function querySettings(configuration: Configuration): QueryServerSettings {
  return {
    // Any text but this one leaves the limit in force.
    reduceLimit: configuration.text(SETTINGS_SECTION, 'reduce_limit') !== 'false',
    timeoutMs: configuration.integer('service', 'os_process_timeout'),
    processLimit: configuration.integer(SETTINGS_SECTION, 'os_process_limit'),
  }
}
