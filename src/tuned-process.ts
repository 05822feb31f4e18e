/**
 * Two settings that a process can only be born with: enough threads for many stores that flush at once, and large
 * blocks of memory taken from the system one by one, so that they go back to it when a store is closed.
 */

const SETTINGS = { UV_THREADPOOL_SIZE: '32', MALLOC_MMAP_THRESHOLD_: '1000000' }

/** False when this process is about to be replaced by one that has the settings. The operator's own are kept. */
export function inTunedProcess(): boolean {
  const missing = Object.entries(SETTINGS).filter(([name]) => process.env[name] === undefined)
  if (missing.length === 0 || process.execve === undefined || process.platform === 'win32') return true
  const [script, ...args] = process.argv.slice(1)
  if (script === undefined) return true
  process.execve(process.execPath, [process.execPath, ...process.execArgv, script, ...args], {
    ...process.env,
    ...Object.fromEntries(missing),
  })
  return false
}
