/** What a running process uses, read from the system. Linux only. */
import { readdirSync, readFileSync } from 'node:fs'

/** Clock ticks a second in /proc, on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100

export interface MemoryUse {
  /** All that is in memory, pages of the database files that the system keeps there included. */
  readonly residentBytes: number
  /** What the process itself allocated. */
  readonly ownBytes: number
}

export function memoryUse(pid: number): MemoryUse {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  // One that is ending has no memory any more.
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0)
  return { residentBytes: kilobytes('VmRSS') * 1024, ownBytes: kilobytes('RssAnon') * 1024 }
}

/** The processor time that it has used so far, all threads together. */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** The processes that a process has started. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

/** The same of a process and of all that it started and that still run. */
export function processorSecondsOfTree(pid: number): number {
  return processesOfTree(pid).reduce((sum, each) => sum + secondsIfRunning(each), 0)
}

/** A process, first, and all that it started and that still run. */
export function processesOfTree(pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const parent = parentOf(Number(name))
    if (parent !== undefined) parents.set(Number(name), parent)
  }
  const isBelow = (each: number): boolean => {
    const parent = parents.get(each)
    return parent !== undefined && (parent === pid || isBelow(parent))
  }
  return [pid, ...[...parents.keys()].filter(isBelow)]
}

export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return undefined
  }
}

/** It may have ended meanwhile. */
function secondsIfRunning(pid: number): number {
  try {
    return processorSeconds(pid)
  } catch {
    return 0
  }
}
