/**
 * A program of `[os_daemons]`: kept running, with a protocol of JSON lines. It may read settings, be restarted when one
 * changes, and write to the log.
 */
import type { Configuration, SettingChange } from '../config/configuration.ts'
import { canonicalSection } from '../config/ini-text.ts'
import { type Log, logLevelOf } from '../runtime/log/log.ts'
import { KeptProcess, type KeptProcessOptions } from '../runtime/processes/kept-process.ts'

/** The settings or sections whose change restarts the program. */
interface Registration {
  readonly section: string
  readonly key: string | undefined
}

/** A bound on registrations. */
const MOST_REGISTRATIONS = 1000

export class OsDaemon {
  readonly #name: string
  readonly #configuration: Configuration
  readonly #log: Log
  readonly #process: KeptProcess
  #registrations: Registration[] = []

  constructor(configuration: Configuration, options: Omit<KeptProcessOptions, 'onLine' | 'onStart'>) {
    this.#name = options.name
    this.#configuration = configuration
    this.#log = options.log
    this.#process = new KeptProcess({
      ...options,
      onStart: () => {
        this.#registrations = []
      },
      onLine: (line) => this.#receive(line),
    })
  }

  async follow(change: SettingChange): Promise<void> {
    const isOfIt = ({ section, key }: Registration) =>
      section === change.section && (key === undefined || key === change.key)
    if (this.#registrations.some(isOfIt)) await this.#process.restart()
  }

  stop(): Promise<void> {
    return this.#process.stop()
  }

  #receive(line: string): void {
    const [verb, first, second] = messageOf(line)
    const isOfSetting = second === undefined || typeof second === 'string'
    if (typeof first !== 'string') this.#complain(line)
    else if (verb === 'log') this.#write(first, second)
    else if (verb === 'get' && isOfSetting) this.#answer(first, second)
    else if (verb === 'register' && isOfSetting) this.#register({ section: canonicalSection(first), key: second })
    else this.#complain(line)
  }

  #answer(section: string, key: string | undefined): void {
    const configuration = this.#configuration
    if (key === undefined) this.#process.send(Object.fromEntries(configuration.section(section)))
    else this.#process.send(configuration.get(section, key) ?? null)
  }

  #register(registration: Registration): void {
    if (this.#registrations.length < MOST_REGISTRATIONS) this.#registrations.push(registration)
    else this.#log.warn('An external program registers for too many settings.', { program: this.#name })
  }

  #write(text: string, options: unknown): void {
    const level = logLevelOf(levelIn(options))
    if (level !== 'none') this.#log[level](text, { program: this.#name })
  }

  #complain(line: string): void {
    const beginning = line.slice(0, 200)
    this.#log.warn('An external program wrote a line that is not a request.', { program: this.#name, line: beginning })
  }
}

/** Empty where the line is not a list. */
function messageOf(line: string): readonly unknown[] {
  try {
    const message: unknown = JSON.parse(line)
    return Array.isArray(message) ? message : []
  } catch {
    return []
  }
}

function levelIn(options: unknown): string {
  if (typeof options !== 'object' || options === null || !('level' in options)) return 'info'
  return String(options.level)
}
