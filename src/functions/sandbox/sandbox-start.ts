/**
 * Starts a sandbox process. It may read the addon of isolates and the parser, and nothing else. Of the environment it has
 * the time zone only.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { lowerPriority } from '../../runtime/processes/lower-priority.ts'
import { endWithUs } from '../../runtime/processes/reaper.ts'
import { SCRIPT_DESCRIPTOR, SCRIPT_LOADER, sandboxScript } from './sandbox-script.ts'

const addonFile = realpathSync(fileURLToPath(import.meta.resolve('isolated-vm')))
/** The file that can be required: the process has no loader of modules that may read anything else. */
const parserFile = realpathSync(createRequire(import.meta.url).resolve('acorn'))

/** Files that the loader of the addon reads to detect the system may be read too. */
const READABLE = [modulesFolder(addonFile), modulesFolder(parserFile), '/proc/self', '/etc/alpine-release']

/** Isolates need `--no-node-snapshot`. */
const FLAGS = [
  '--permission',
  '--allow-addons',
  ...READABLE.map((path) => `--allow-fs-read=${path}`),
  '--no-node-snapshot',
  '--no-warnings',
  // No function gets more than one processor to work for it.
  '--single-threaded-gc',
  '--title=settle-sandbox',
]

/** Requests come first on a busy machine. */
const NICENESS = 2

/** Started before anybody asked for it. */
let spare: ChildProcess | undefined

/** Starts a process in advance: it can start while everything else is loaded. */
export function startSpareSandbox(): void {
  spare = spawnSandbox()
  // Without a process there is no use for it.
  spare.on('error', () => {})
}

export function startSandbox(): ChildProcess {
  const started = spare
  spare = undefined
  const isRunning = started?.pid !== undefined && started.exitCode === null && started.signalCode === null
  return isRunning ? started : spawnSandbox()
}

function spawnSandbox(): ChildProcess {
  const { TZ } = process.env
  const child = spawn(process.execPath, [...FLAGS, '--eval', SCRIPT_LOADER, addonFile, parserFile], {
    env: TZ === undefined ? {} : { TZ },
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  })
  if (child.pid !== undefined) lowerPriority(child.pid, NICENESS)
  endWithUs(child)
  const script = child.stdio[SCRIPT_DESCRIPTOR]
  // A process that could not be started reads nothing.
  script?.on('error', () => {})
  if (script instanceof Writable) script.end(sandboxScript())
  return child
}

/** The outermost `node_modules` of a path: packages that the addon needs may lie beside it. */
function modulesFolder(path: string): string {
  const folder = `${join('/', 'node_modules')}`
  const at = path.indexOf(folder)
  return at < 0 ? dirname(path) : path.slice(0, at + folder.length)
}
