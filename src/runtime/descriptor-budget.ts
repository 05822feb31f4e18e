/**
 * How the file descriptors of the process are shared between connections and files. The limit is the system's; Node
 * raises its own to the highest that is allowed when it starts, and cannot do more.
 */
import { readFileSync } from 'node:fs'

export interface DescriptorBudget {
  readonly connections: number
  /** Files of databases that may stay open without users, and as many of indexes. */
  readonly idleFiles: number
}

/** Of a database and of an index, each a file of LMDB. */
const PER_PAIR = 3 + 4
/** Pipes of processes, the log, channels, and connections that are refused. */
const GENERAL_RESERVE = 192

/** The wishes come from settings; where the limit is low, half of it is for connections. */
export function descriptorBudget(limit: number, wishes: DescriptorBudget): DescriptorBudget {
  const reserve = Math.min(Math.floor(limit / 2), GENERAL_RESERVE + PER_PAIR * wishes.idleFiles)
  const forFiles = reserve - Math.min(GENERAL_RESERVE, Math.floor(reserve / 2))
  return {
    connections: Math.min(wishes.connections, Math.max(1, limit - reserve)),
    idleFiles: Math.min(wishes.idleFiles, Math.max(1, Math.floor(forFiles / PER_PAIR))),
  }
}

/** Infinity where there is none, or where it cannot be read. */
export function descriptorLimit(): number {
  const text = limitText()
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY
}

function limitText(): string | undefined {
  try {
    return /^Max open files +(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  } catch {
    return reportedLimit()
  }
}

/** Systems without /proc: from Node's diagnostic report, which takes some milliseconds. */
function reportedLimit(): string | undefined {
  const report: unknown = process.report.getReport()
  const limits = member(report, 'userLimits')
  const soft = member(member(limits, 'open_files'), 'soft')
  return soft === undefined ? undefined : String(soft)
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
