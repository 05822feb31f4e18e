/**
 * The programs of one section of the configuration, `name = command`. A command runs only as this start was given it: who
 * may change settings over HTTP can end a program, and let it begin anew, but cannot choose what runs.
 */
import type { Configuration, SettingChange } from '../config/configuration.ts'
import type { Log } from '../runtime/log/log.ts'

export interface Program {
  stop(): Promise<void>
}

export class ProgramSection<P extends Program> {
  readonly #section: string
  readonly #configuration: Configuration
  readonly #log: Log
  readonly #begin: (name: string, command: string) => P
  readonly #programs = new Map<string, P>()

  constructor(section: string, configuration: Configuration, log: Log, begin: (name: string, command: string) => P) {
    this.#section = section
    this.#configuration = configuration
    this.#log = log
    this.#begin = begin
    for (const name of configuration.section(section).keys()) this.#run(name)
  }

  get(name: string): P | undefined {
    return this.#programs.get(name)
  }

  [Symbol.iterator](): IterableIterator<P> {
    return this.#programs.values()
  }

  /** Changes come one after the other. */
  async follow({ section, key }: SettingChange): Promise<void> {
    if (section !== this.#section) return
    const before = this.#programs.get(key)
    this.#programs.delete(key)
    await before?.stop()
    this.#run(key)
  }

  async stop(): Promise<void> {
    await Promise.all([...this].map((program) => program.stop()))
    this.#programs.clear()
  }

  #run(name: string): void {
    const command = this.#configuration.get(this.#section, name)
    if (command === undefined) return
    if (command === this.#configuration.startupSection(this.#section).get(name)) {
      this.#programs.set(name, this.#begin(name, command))
      return
    }
    this.#log.warn('A command that was set at run time is not run.', { setting: `${this.#section}/${name}` })
  }
}
