/**
 * One sandbox process, seen from the server: it does one call at a time. The server owns the time: a call that goes on
 * without a sign for too long, or takes too much memory, costs the process its life. Whatever ends it, the call is told.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, extname, join } from 'node:path'
import { Writable } from 'node:stream'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Log } from '../runtime/log.ts'
import { type Frame, FrameReader, frameHeader, Reply } from './frame.ts'
import { MODULES_DESCRIPTOR, moduleHooks, strippedModules } from './stripped-modules.ts'

export interface CallLimits {
  readonly timeoutMs: number
  readonly memoryMb: number
}

/** Why a process ended in the middle of a call. */
export type EndCause = 'time' | 'memory' | 'protocol' | 'closed' | 'itself' | 'killed'

export class ProcessEnd extends Error {
  override readonly cause: EndCause
  /** As a shell tells it. */
  readonly status: number

  constructor(cause: EndCause, status: number) {
    super(`A sandbox process ended: ${cause}, ${status}`)
    this.cause = cause
    this.status = status
  }
}

interface Call {
  readonly limits: CallLimits
  readonly resolve: (frame: Frame) => void
  readonly reject: (error: Error) => void
}

const START_LIMIT_MS = 60_000

/** Beyond what a batch shows signs of life with: see the slices of the isolate. */
const SLACK_MS = 150
/** How many times the time limit a silent process gets that is hardly let run, or only waits. */
const MOST_PATIENCE = 4
const LARGEST_REPLY_BYTES = 512 * 1024 * 1024
const PAGE_BYTES = 4096
const TICK_MS = 10
/** To put such parts together costs less than to write them one by one. */
const SMALL_BYTES = 16 * 1024
const LONGEST_LAST_WORDS = 2000

export class SandboxProcess {
  /** Programs that it has, by key; the one used longest ago is first. */
  readonly programs = new Map<string, number>()
  /** Resolves to whether it has started, when that is known. */
  readonly started: Promise<boolean>
  /** Resolves when it is gone. */
  readonly exited: Promise<void>
  readonly #child: ChildProcess
  readonly #log: Log
  readonly #reader = new FrameReader(LARGEST_REPLY_BYTES)
  #call: Call | undefined
  #lastSign = performance.now()
  /** The processor time that it had used when it gave its last sign. */
  #workAt = { sign: 0, ms: 0 }
  #onStart: (hasStarted: boolean) => void = () => {}
  #isRunning = true
  #cause: EndCause | undefined
  #lastWords = ''

  constructor(log: Log) {
    this.#log = log
    this.started = new Promise((resolve) => {
      this.#onStart = resolve
    })
    const child = startChild()
    this.#child = child
    this.exited = new Promise((resolve) => {
      child.once('error', (error) => {
        log.error('A sandbox process cannot be started.', { error: String(error) })
        this.#ended(1)
        resolve()
      })
      child.once('close', (code, signal) => {
        this.#ended(code ?? 128 + (signal ? constants.signals[signal] : 0), signal === 'SIGKILL')
        resolve()
      })
    })
    running.add(this)
    // Writing to a process that has ended is no failure of the server.
    child.stdin?.on('error', () => {})
    child.stdout?.on('data', (piece: Buffer) => this.#hear(piece))
    child.stderr?.setEncoding('utf8').on('data', (words: string) => {
      this.#lastWords = (this.#lastWords + words).slice(0, LONGEST_LAST_WORDS)
    })
    this.release()
  }

  /** Not from the moment on that it is killed, however long it takes to be gone. */
  get isRunning(): boolean {
    return this.#isRunning && this.#cause === undefined
  }

  get isBusy(): boolean {
    return this.#call !== undefined
  }

  /** Sends what needs no answer. */
  tell(kind: number, number: number, parts: readonly Uint8Array[]): void {
    const { stdin } = this.#child
    if (!this.#isRunning || !stdin) return
    const frame = [frameHeader(kind, number, parts), ...parts]
    const isSmall = frame.every(({ length }) => length < SMALL_BYTES)
    if (isSmall) {
      stdin.write(Buffer.concat(frame))
      return
    }
    stdin.cork()
    for (const part of frame) stdin.write(part)
    stdin.uncork()
  }

  /** Sends a frame and resolves to what it is answered with; rejects with a `ProcessEnd`. */
  call(kind: number, number: number, parts: readonly Uint8Array[], limits: CallLimits): Promise<Frame> {
    return new Promise((resolve, reject) => {
      if (!this.#isRunning || this.#call) return reject(new ProcessEnd('killed', 1))
      this.#call = { limits, resolve, reject }
      this.#lastSign = performance.now()
      this.tell(kind, number, parts)
    })
  }

  /** To be called now and then while it is busy: ends it where it takes too long or too much. */
  watch(now: number): void {
    if (!this.#call) return
    const { timeoutMs, memoryMb } = this.#call.limits
    if (this.#isOverdue(now, timeoutMs)) this.kill('time')
    else if (residentMb(this.#child.pid) > memoryMb) this.kill('memory')
  }

  /** The same while it starts: a busy machine is no fault of a function. */
  watchStart(now: number): void {
    if (now - this.#lastSign > START_LIMIT_MS) this.kill('time')
  }

  /** The server does not end while this is held. */
  hold(): void {
    this.#child.ref()
  }

  /** Lets the server end while this is idle. */
  release(): void {
    this.#child.unref()
  }

  kill(cause: EndCause): void {
    if (!this.#isRunning) return
    this.#cause ??= cause
    this.#child.kill('SIGKILL')
  }

  /** That others keep the processors busy is no fault of a function: it is given time until it has had its share. */
  #isOverdue(now: number, timeoutMs: number): boolean {
    if (this.#workAt.sign !== this.#lastSign) this.#workAt = { sign: this.#lastSign, ms: processorMs(this.#child.pid) }
    const silentMs = now - this.#lastSign
    if (silentMs <= timeoutMs + SLACK_MS) return false
    return silentMs > MOST_PATIENCE * timeoutMs || processorMs(this.#child.pid) - this.#workAt.ms >= timeoutMs
  }

  #hear(piece: Buffer): void {
    this.#lastSign = performance.now()
    try {
      this.#reader.push(piece, (frame) => this.#take(frame))
    } catch {
      this.kill('protocol')
    }
  }

  #take(frame: Frame): void {
    if (!this.#isRunning || this.#cause) return
    if (frame.kind === Reply.log) this.#log.info(frame.body.toString())
    else if (frame.kind === Reply.ready) this.#onStart(true)
    else if (frame.kind !== Reply.progress) this.#answer(frame)
  }

  #answer(frame: Frame): void {
    const call = this.#call
    this.#call = undefined
    if (call) call.resolve(frame)
    else this.kill('protocol')
  }

  #ended(status: number, isKilled = false): void {
    if (!this.#isRunning) return
    this.#isRunning = false
    running.delete(this)
    const cause = this.#cause ?? (isKilled ? 'killed' : 'itself')
    if (cause !== 'closed') this.#log.warn('A sandbox process ended.', { cause, status, words: this.#lastWords })
    this.#onStart(false)
    this.#call?.reject(new ProcessEnd(cause, status))
    this.#call = undefined
  }
}

const running = new Set<SandboxProcess>()

// Also where the server does not take the time to stop them.
process.on('exit', () => {
  for (const each of running) each.kill('closed')
})

/** User and system time of a process and all of its threads; where the system does not tell, the time that passes. */
function processorMs(pid: number | undefined): number {
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
function residentMb(pid: number | undefined): number {
  if (process.platform !== 'linux' || pid === undefined) return 0
  try {
    const [, residentPages] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')
    return (Number(residentPages) * PAGE_BYTES) / (1024 * 1024)
  } catch {
    return 0
  }
}

const ownFile = fileURLToPath(import.meta.url)
const sourceFolder = dirname(dirname(ownFile))
const childFile = join(dirname(ownFile), 'child', `child${extname(ownFile)}`)
const addonFile = realpathSync(fileURLToPath(import.meta.resolve('isolated-vm')))
const addonFolder = modulesFolder(addonFile)

/**
 * Without a right to anything but reading its own program. `--no-node-snapshot` is what isolates need. What the loader of the
 * addon looks at to tell systems apart may be read too.
 */
function startChild(): ChildProcess {
  const readable = [sourceFolder, addonFolder, join(dirname(sourceFolder), 'package.json')]
  const allowed = [...readable, '/proc/self', '/etc/alpine-release'].map((path) => `--allow-fs-read=${path}`)
  const flags = ['--permission', '--allow-addons', ...allowed, '--no-node-snapshot', '--no-warnings']
  const { TZ } = process.env
  const options = { env: TZ === undefined ? {} : { TZ }, cwd: '/' }
  if (extname(ownFile) !== '.ts') return spawn(process.execPath, [...flags, childFile, addonFile], options)
  const child = spawn(process.execPath, [...flags, '--import', moduleHooks, childFile, addonFile], {
    ...options,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  })
  const modules = child.stdio[MODULES_DESCRIPTOR]
  // A process that could not be started reads nothing.
  modules?.on('error', () => {})
  if (modules instanceof Writable) modules.end(strippedModules(pathToFileURL(childFile).href))
  return child
}

/** The outermost `node_modules` of a path: packages that the addon needs may lie beside it. */
function modulesFolder(path: string): string {
  const folder = `${join('/', 'node_modules')}`
  const at = path.indexOf(folder)
  return at < 0 ? dirname(path) : path.slice(0, at + folder.length)
}
