/** The memory that a process has to itself: pages of mapped files, which the system can take back, are not in it. Linux only. */
import { readFileSync } from 'node:fs'

export function privateMegabytes(pid: number | 'self'): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  let kilobytes = 0
  for (const [, count] of text.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+) kB$/gm)) kilobytes += Number(count)
  return kilobytes / 1024
}

/** From the middle third of ten measurements to the last one, the noise aside: the first ones fill what the allocator keeps. */
export function lateGrowth(megabytes: readonly number[]): number {
  return Math.min(...megabytes.slice(7)) - Math.min(...megabytes.slice(3, 6))
}
