/** The sandbox processes that this process has started. Linux only. */
import { readdirSync, readFileSync } from 'node:fs'

export function sandboxPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && isSandboxOfOurs(name))
    .map(Number)
}

function isSandboxOfOurs(pid: string): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const isOurs = parent === String(process.pid) && state !== 'Z'
    return isOurs && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('settle-sandbox')
  } catch {
    // It ended while it was looked at.
    return false
  }
}
