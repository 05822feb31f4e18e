/** What happens, told to the operator in readable lines: time, level, message, and details as `name=value`. */
import { pino } from 'pino'

export interface Log {
  debug(message: string, details?: object): void
  info(message: string, details?: object): void
  warn(message: string, details?: object): void
  error(message: string, details?: object): void
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

export interface LineSink {
  write(line: string): void
}

export function createLog(level: LogLevel, sink: LineSink): Log {
  const logger = pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (json) => sink.write(readable(json)) },
  )
  const at =
    (name: Exclude<LogLevel, 'silent'>) =>
    (message: string, details: object = {}) => {
      logger[name](details, message)
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} }

function readable(json: string): string {
  const { time, level, msg, ...details }: Record<string, unknown> = JSON.parse(json)
  const label = typeof level === 'number' ? (pino.levels.labels[level] ?? level) : level
  const rest = Object.entries(details).map(([name, value]) => ` ${name}=${JSON.stringify(value)}`)
  return `[${time}] [${label}] ${msg}${rest.join('')}\n`
}
