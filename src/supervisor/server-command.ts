/** How the process of the server is started: a process can only be born with some of its settings. */
import { getCompileCacheDir } from 'node:module'
import { extname, join } from 'node:path'

export interface ServerCommand {
  /** What follows the name of Node's own program. */
  readonly args: readonly string[]
  readonly environment: NodeJS.ProcessEnv
}

/** The flags are those of the `settle` command; options of Node's own go to the server too. */
export function serverCommand(flags: readonly string[], nodeOptions: readonly string[] = []): ServerCommand {
  return { args: [...nodeOptions, serverScript(), ...flags], environment: serverEnvironment() }
}

function serverScript(): string {
  return join(import.meta.dirname, '..', `server-process${extname(import.meta.filename)}`)
}

/**
 * Enough threads for many stores that flush at once, and large blocks of memory taken from the system one by one, so
 * that they go back to it when a store is closed. The operator's own settings are kept.
 */
function serverEnvironment(): NodeJS.ProcessEnv {
  const cache = getCompileCacheDir()
  return {
    UV_THREADPOOL_SIZE: '32',
    MALLOC_MMAP_THRESHOLD_: '1000000',
    // The server reads what earlier ones compiled from its first file on.
    ...(cache !== undefined && { NODE_COMPILE_CACHE: cache }),
    ...process.env,
  }
}
