/** How long the system lets this process make a file (`ulimit -f`). It can be changed while the process runs. */
import { readFileSync } from 'node:fs'

const LIMITS = '/proc/self/limits'
const LINE = /^Max file size +(\d+)/m

/** Infinity where there is no limit, or where the system does not say. */
export function fileSizeLimit(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const found = LINE.exec(limits())
  return found ? Number(found[1]) : Number.POSITIVE_INFINITY
}

function limits(): string {
  try {
    return readFileSync(LIMITS, 'latin1')
  } catch {
    return ''
  }
}
