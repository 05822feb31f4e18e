/**
 * The log. A line of text has time, level, process, message, and details as `name=value`. A line of JSON is for
 * programs: see `jsonLine`.
 */

export interface Log {
  debug(message: string, details?: object): void
  info(message: string, details?: object): void
  warn(message: string, details?: object): void
  error(message: string, details?: object): void
}

export type MessageLevel = keyof Log
export type LogLevel = MessageLevel | 'none'

export type LogFormat = 'text' | 'json'

export interface LineSink {
  write(line: string): void
}

/** Writes what is at its level or above it. Level and format may change at any time. */
export class LineLog implements Log {
  level: LogLevel
  format: LogFormat = 'text'
  /** Messages that were written. */
  readonly counts: Record<MessageLevel, number> = { debug: 0, info: 0, warn: 0, error: 0 }
  readonly #sink: LineSink
  readonly #dated: boolean

  constructor(level: LogLevel, sink: LineSink, { dated = true }: { readonly dated?: boolean } = {}) {
    this.level = level
    this.#sink = sink
    this.#dated = dated
  }

  debug(message: string, details?: object): void {
    this.write('debug', message, details)
  }

  info(message: string, details?: object): void {
    this.write('info', message, details)
  }

  warn(message: string, details?: object): void {
    this.write('warn', message, details)
  }

  error(message: string, details?: object): void {
    this.write('error', message, details)
  }

  writes(level: MessageLevel): boolean {
    return RANKS[level] >= RANKS[this.level]
  }

  write(level: MessageLevel, message: string, details?: object): void {
    if (!this.writes(level)) return
    this.counts[level]++
    this.#sink.write(this.line(level, message, details))
  }

  /** A message in the format of this log. */
  line(level: MessageLevel, message: string, details?: object): string {
    if (this.format === 'json') return jsonLine(level, message, details)
    const text = details ? `${message}${detailText(details)}` : message
    // One message is one line, whatever a client put into it.
    const line = LINE_BREAK.test(text) ? text.replace(LINE_BREAKS, escaped) : text
    return `${this.#dated ? datedMark(level) : mark(level)}${line}\n`
  }
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} }

/** Tells both. */
export function joinedLog(one: Log, other: Log): Log {
  const at = (level: MessageLevel) => (message: string, details?: object) => {
    one[level](message, details)
    other[level](message, details)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** The level of a setting; an unknown word means `error`. */
export function logLevelOf(word: string): LogLevel {
  if (word === 'warning') return 'warn'
  return isLevel(word) ? word : 'error'
}

function isLevel(word: string): word is LogLevel {
  return Object.hasOwn(RANKS, word)
}

const RANKS: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3, none: 4 }

/** Whether a message has any. Nearly none has, and this is the faster way to see that. */
const LINE_BREAK = /[^ -~\xa0-\u2027\u202a-\uffff]/
const LINE_BREAKS = /[\p{Cc}\u2028\u2029]/gu

function mark(level: MessageLevel): string {
  return `[${level}] [${process.pid}] `
}

let markedSecond = 0
const datedMarks = new Map<MessageLevel, string>()

/** Made once a second: making it costs more than the rest of a line. */
function datedMark(level: MessageLevel): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== markedSecond) datedMarks.clear()
  markedSecond = second
  let text = datedMarks.get(level)
  if (text === undefined) {
    text = `[${new Date(second * 1000).toUTCString()}] ${mark(level)}`
    datedMarks.set(level, text)
  }
  return text
}

const OWN_NAMES: ReadonlySet<string> = new Set(['time', 'level', 'process', 'message'])

/**
 * One message as one line of JSON. `time`, `level`, `process` and `message` are in every line; details follow as members of
 * their own.
 */
function jsonLine(level: string, message: string, details: object | undefined): string {
  const line: Record<string, unknown> = { time: new Date().toISOString(), level, process: process.pid, message }
  if (details) {
    for (const [name, value] of Object.entries(details)) line[OWN_NAMES.has(name) ? `detail_${name}` : name] = value
  }
  // JSON escapes line feeds, so a message cannot forge a line. These two end a line for some readers too.
  return `${JSON.stringify(line).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function detailText(details: object): string {
  return Object.entries(details)
    .map(([name, value]) => ` ${name}=${JSON.stringify(value)}`)
    .join('')
}
