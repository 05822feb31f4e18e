/** The processor time and memory that a child process takes, as far as the system tells. */
import { readFileSync } from 'node:fs'

const PAGE_BYTES = 4096
const TICK_MS = 10

/** User and system time of a process and all of its threads; where the system does not tell, the time that passes. */
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

/** Zero where the system does not tell. */
export function residentMb(pid: number | undefined): number {
  if (process.platform !== 'linux' || pid === undefined) return 0
  try {
    const [, residentPages] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')
    return (Number(residentPages) * PAGE_BYTES) / (1024 * 1024)
  } catch {
    return 0
  }
}
