/** The processor time and memory of a child process, if the system reports them. */
import { readFileSync } from 'node:fs'

const PAGE_BYTES = 4096
const TICK_MS = 10

/** User and system time of a process and all of its threads; if the system does not report it, the wall-clock time. */
export function processorMs(pid: number | undefined): number {
  if (process.platform !== 'linux' || pid === undefined) return performance.now()
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name in parentheses may hold anything; twelve fields lie between it and the times.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return performance.now()
  }
}

/** The memory that a process allocated itself, without mapped files; undefined if the system does not report it. */
export function privateMb(pid: number | undefined): number | undefined {
  if (process.platform !== 'linux' || pid === undefined) return undefined
  try {
    const kilobytes = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024
  } catch {
    return undefined
  }
}

/** Zero if the system does not report it. */
export function residentMb(pid: number | undefined): number {
  if (process.platform !== 'linux' || pid === undefined) return 0
  try {
    const [, residentPages] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')
    return (Number(residentPages) * PAGE_BYTES) / (1024 * 1024)
  } catch {
    return 0
  }
}
