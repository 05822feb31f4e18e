/**
 * Tells a process from a later one that got the same id: by when it was started. Whoever kills a process that is not its
 * child asks here first.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id'

/** Of what follows the name of the program in `/proc/<pid>/stat`. */
const STATE_FIELD = 0
const START_FIELD = 19

/** The same for as long as the process lives, and never that of another one. Undefined when it is gone. */
export function processIdentity(pid: number): string | undefined {
  const start = processStart(pid)
  return start === undefined ? undefined : `${bootId()} ${start}`
}

/** When it was started: on Linux in ticks since the system was, elsewhere as `ps` says it. Undefined when it is gone. */
export function processStart(pid: number): string | undefined {
  return process.platform === 'linux' ? startOnLinux(pid) : startElsewhere(pid)
}

function startOnLinux(pid: number): string | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return undefined
  }
  // The name of the program may hold anything, closing brackets included.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  // A zombie has ended: it holds nothing but its id.
  return fields[STATE_FIELD] === 'Z' ? undefined : fields[START_FIELD]
}

function startElsewhere(pid: number): string | undefined {
  const { stdout, status } = spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' })
  return status === 0 && stdout.trim() !== '' ? stdout.trim() : undefined
}

function bootId(): string {
  try {
    return readFileSync(BOOT_ID_FILE, 'utf8').trim()
  } catch {
    return '-'
  }
}
