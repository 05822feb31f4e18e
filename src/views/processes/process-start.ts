/** Starts an index process, and ends it with all processes that it started. */
import { type ChildProcess, spawn } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { lowerPriority } from '../../runtime/processes/lower-priority.ts'
import { processEntry } from '../../runtime/processes/process-entry.ts'
import { endGroupWithUs } from '../../runtime/processes/reaper.ts'
import { libraryVariables } from '../../storage/lmdb/library/library-use.ts'
import { WITH_SANDBOX } from './with-sandbox.ts'

/** Requests come first on a busy machine. */
const NICENESS = 2

/** Settings of the system's libraries that the process is to share, and nothing else of the environment. */
const INHERITED = ['TZ', 'UV_THREADPOOL_SIZE', 'MALLOC_MMAP_THRESHOLD_', 'MALLOC_ARENA_MAX', 'LD_LIBRARY_PATH']

/**
 * Nearly everything that a job allocates is garbage after it. By default the young generation grew to 80 MB in a process that
 * holds 30 MB, which is never given back while there is work.
 */
const YOUNG_GENERATION = '--max-semi-space-size=16'

/** In a process group of its own, with its sandbox processes: signals of a terminal go to the server alone. */
export function startProcess({ withSandbox = false } = {}): ChildProcess {
  const compiled = getCompileCacheDir()
  const flags = withSandbox ? [WITH_SANDBOX] : []
  const entry = processEntry('views/processes/index-process')
  const child = spawn(process.execPath, [YOUNG_GENERATION, '--no-warnings', '--title=settle-index', entry, ...flags], {
    env: {
      ...Object.fromEntries(INHERITED.map((name) => [name, process.env[name]])),
      ...libraryVariables(),
      // Node makes a folder for each of its versions inside of the one that it is given.
      ...(compiled && { NODE_COMPILE_CACHE: dirname(compiled) }),
    },
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    serialization: 'advanced',
    detached: true,
  })
  if (child.pid !== undefined) lowerPriority(child.pid, NICENESS)
  endGroupWithUs(child)
  child.unref()
  child.channel?.unref()
  if (child.stderr && 'unref' in child.stderr && typeof child.stderr.unref === 'function') child.stderr.unref()
  return child
}

/** Its sandbox processes would notice its end, but not in the middle of an endless function. */
export function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // None is left.
  }
}
