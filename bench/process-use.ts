/** What a running process uses, read from the system. Linux only. */
import { readFileSync } from 'node:fs'

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
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
  return { residentBytes: kilobytes('VmRSS') * 1024, ownBytes: kilobytes('RssAnon') * 1024 }
}

/** The processor time that it has used so far, all threads together. */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}
