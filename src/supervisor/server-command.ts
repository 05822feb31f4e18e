/**
 * The command line and environment of the server process, for settings that must be given at the start of a process.
 */
import { getCompileCacheDir } from 'node:module'
import { processEntry, unbundledEntry } from '../runtime/processes/process-entry.ts'

export interface ServerCommand {
  /** The arguments of the Node executable. */
  readonly args: readonly string[]
  readonly environment: NodeJS.ProcessEnv
}

/**
 * Nearly everything that a request allocates is garbage when it is answered. The default size of the young generation
 * makes collections rarer but not cheaper, and keeps up to 60 MB more.
 */
const YOUNG_GENERATION = '--max-semi-space-size=16'

/** The flags are those of the `settle` command; options of Node's own go to the server too. */
export function serverCommand(flags: readonly string[], nodeOptions: readonly string[] = []): ServerCommand {
  return {
    args: [YOUNG_GENERATION, ...nodeOptions, serverScript(nodeOptions), ...flags],
    environment: serverEnvironment(),
  }
}

/** Options of Node are for profilers, debuggers and hooks, which want to see the modules; so does a coverage report. */
function serverScript(nodeOptions: readonly string[]): string {
  const { NODE_OPTIONS, NODE_V8_COVERAGE } = process.env
  const isWatched = nodeOptions.length > 0 || NODE_OPTIONS !== undefined || NODE_V8_COVERAGE !== undefined
  return isWatched ? unbundledEntry('server-process') : processEntry('server-process')
}

/**
 * Enough threads for many stores that flush at once. Large blocks of memory taken from the system one by one, so that
 * they go back to it when a store is closed: the smallest of the lists that LMDB has for an open file takes 512 KiB. And
 * two pools for small ones, since one for each thread keeps what each has freed. A pool keeps some megabytes at its end:
 * the buffers of a large body would be allocated from the system again with each request. The operator's own settings are kept.
 */
function serverEnvironment(): NodeJS.ProcessEnv {
  const cache = getCompileCacheDir()
  return {
    UV_THREADPOOL_SIZE: '32',
    MALLOC_MMAP_THRESHOLD_: '500000',
    MALLOC_ARENA_MAX: '2',
    MALLOC_TRIM_THRESHOLD_: '16000000',
    // The server reads what earlier ones compiled from its first file on.
    ...(cache !== undefined && { NODE_COMPILE_CACHE: cache }),
    ...process.env,
  }
}
