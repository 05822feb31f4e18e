/**
 * One process of a query server: commands and replies of its protocol, one JSON value a line. It remembers what the process
 * was given, forwards log lines, and translates errors for the client. After a malformed reply the process is ended, since it
 * may be out of step.
 */
import { JsonReader, JsonTextError } from '../../encoding/json/json-text.ts'
import type { Log } from '../../runtime/log/log.ts'
import { AnsweringProcess, processError } from '../../runtime/processes/answering-process.ts'
import { functionError, reasonText } from '../function-error.ts'
import type { DesignProgram } from '../functions.ts'

export interface QueryServerOptions {
  readonly language: string
  readonly command: string
  readonly log: Log
  readonly timeoutMs: () => number
}

/** What each use begins with. */
export interface ResetSettings {
  readonly reduceLimit: boolean
  readonly timeoutMs: number
}

/** Reads what a command is to be answered with; throws where the reply is something else. */
export type ReplyReading<T> = (reply: JsonReader) => T

/** A process that has loaded this many design documents is replaced by a new one. */
const MOST_DESIGNS = 500

/** The bytes that are sent before the first answer is awaited, so that the process never waits for input. */
const PORTION_COMMANDS = 64
const PORTION_CHARACTERS = 1024 * 1024

export class QueryServer {
  readonly #process: AnsweringProcess
  /** By the id of a design document: the key of the text that the process knows. */
  readonly #designs = new Map<string, string>()

  constructor({ language, command, log, timeoutMs }: QueryServerOptions) {
    const name = `query_servers/${language}`
    this.#process = new AnsweringProcess({
      name,
      command,
      log,
      timeoutMs,
      isAside: (line) => {
        if (!LOG_LINE.test(line)) return false
        log.info(reasonText(listIn(line)[1]), { program: name })
        return true
      },
    })
  }

  /** Whether it can be used once more. */
  get isUsable(): boolean {
    return this.#process.isAlive && this.#designs.size <= MOST_DESIGNS
  }

  knows({ id, key }: DesignProgram): boolean {
    return this.#designs.get(id) === key
  }

  /** Forgets map functions and their library; what it was taught of design documents stays. */
  async reset({ reduceLimit, timeoutMs }: ResetSettings): Promise<void> {
    await this.ask(JSON.stringify(['reset', { reduce_limit: reduceLimit, timeout: timeoutMs }]), readTrue)
  }

  async teach(design: DesignProgram): Promise<void> {
    if (this.knows(design)) return
    const { id, key, text } = design
    this.#designs.delete(id)
    await this.ask(`["ddoc","new",${JSON.stringify(id)},${text}]`, readTrue)
    this.#designs.set(id, key)
  }

  /** The command is JSON; blanks between its values may be line breaks. */
  async ask<T>(command: string, read: ReplyReading<T>): Promise<T> {
    const line = await this.#process.ask(command.replaceAll('\n', ' '))
    if (FAILURE_LINE.test(line)) throw this.#failure(line)
    try {
      const reply = new JsonReader(Buffer.from(line))
      const value = read(reply)
      reply.end()
      return value
    } catch (error) {
      if (!(error instanceof JsonTextError || error instanceof SyntaxError)) throw error
      throw this.#ended(`The reply cannot be read: ${line.slice(0, 100)}`)
    }
  }

  /** One after the other, without a wait in between: the outcomes are those of the commands, in their order. */
  async askAll<T>(commands: Iterable<string>, read: ReplyReading<T>): Promise<PromiseSettledResult<T>[]> {
    const outcomes: PromiseSettledResult<T>[] = []
    let asked: Promise<T>[] = []
    let characters = 0
    for (const command of commands) {
      asked.push(this.ask(command, read))
      characters += command.length
      if (asked.length < PORTION_COMMANDS && characters < PORTION_CHARACTERS) continue
      outcomes.push(...(await Promise.allSettled(asked)))
      asked = []
      characters = 0
    }
    outcomes.push(...(await Promise.allSettled(asked)))
    return outcomes
  }

  /** Gives up what it does. */
  kill(): void {
    this.#process.kill()
  }

  stop(): Promise<void> {
    return this.#process.stop()
  }

  #failure(line: string): Error {
    const [verb, id, reason] = listIn(line)
    if (typeof id !== 'string') return this.#ended(`The reply cannot be read: ${line.slice(0, 100)}`)
    const error = functionError(id, reason)
    if (verb === 'fatal') this.#process.kill(error)
    return error
  }

  #ended(reason: string): Error {
    const error = processError(reason)
    this.#process.kill(error)
    return error
  }
}

/** The first of several outcomes that is a failure is that of all. */
export function allOf<T>(outcomes: readonly PromiseSettledResult<T>[]): T[] {
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason
    return outcome.value
  })
}

/** A reply that is not what the protocol has for the command. */
export function unexpectedReply(): JsonTextError {
  return new JsonTextError('The reply does not follow the protocol', 0)
}

export function readTrue(reply: JsonReader): void {
  if (reply.value() !== true) throw unexpectedReply()
}

const LOG_LINE = /^\s*\[\s*"log"\s*,/
const FAILURE_LINE = /^\s*\[\s*"(error|fatal)"\s*[,\]]/

/** Empty where the line is no list. */
function listIn(line: string): readonly unknown[] {
  try {
    const list: unknown = JSON.parse(line)
    return Array.isArray(list) ? list : []
  } catch {
    return []
  }
}
