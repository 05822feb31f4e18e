/**
 * One sandbox process, seen from the server. It runs one call at a time and may have the next one queued. The server enforces
 * the limits: a call without progress for too long, or with too much memory, ends the process. Its calls fail then; a queued
 * call that had not begun is reported as such, so that it can be repeated.
 */
import type { ChildProcess } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import type { Log } from '../../runtime/log/log.ts'
import { type Frame, FrameReader, frameHeader, Reply } from './frame.ts'
import { processorMs, residentMb } from './process-use.ts'
import { startSandbox } from './sandbox-start.ts'

export interface CallLimits {
  readonly timeoutMs: number
  readonly memoryMb: number
}

/**
 * Why a process ended in the middle of a call; `fatal` when a call before it asked for that, `behind` when it ended for the
 * sake of another call before this one's turn.
 */
export type EndCause = 'time' | 'memory' | 'protocol' | 'closed' | 'itself' | 'killed' | 'fatal' | 'behind'

export class ProcessEnd extends Error {
  override readonly cause: EndCause
  /** As a shell reports it. */
  readonly status: number

  constructor(cause: EndCause, status: number) {
    super(`A sandbox process ended: ${cause}, ${status}`)
    this.cause = cause
    this.status = status
  }
}

interface Call {
  readonly limits: CallLimits
  readonly answer: Promise<Frame>
  readonly resolve: (frame: Frame) => void
  readonly reject: (error: Error) => void
  isGivenUp: boolean
}

/** Of which one is being worked on. */
export const MOST_CALLS = 2

const START_LIMIT_MS = 60_000

/** Beyond what a batch shows signs of life with: see the slices of the isolate. */
const SLACK_MS = 150
/** How many times the time limit a silent process gets that is hardly let run, or only waits. */
const MOST_PATIENCE = 4
/** How long an aborted call may take to end by itself: a new process costs more than that. */
const GRACE_MS = 100
/** A call that uses this much processor time without a sign of life gets the lowest priority. */
const SHARE_MS = 250
const LAST_PRIORITY = constants.priority.PRIORITY_LOW
const LARGEST_REPLY_BYTES = 512 * 1024 * 1024
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
  /** In the order of their turns. */
  readonly #calls: Call[] = []
  #impatience: NodeJS.Timeout | undefined
  #lastSign = performance.now()
  /** The processor time that it had used when it gave its last sign. */
  #workAt = { sign: 0, ms: 0 }
  #onStart: (hasStarted: boolean) => void = () => {}
  #isRunning = true
  #isLowPriority = false
  #cause: EndCause | undefined
  #lastWords = ''

  constructor(log: Log) {
    this.#log = log
    this.started = new Promise((resolve) => {
      this.#onStart = resolve
    })
    const child = startSandbox()
    this.#child = child
    this.exited = new Promise((resolve) => {
      child.once('error', (error) => {
        log.error('A sandbox process could not be started.', { error: String(error) })
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

  /** Why it ended or will end at once, if it does. */
  get cause(): EndCause | undefined {
    return this.#cause
  }

  /** Whether it has the lowest priority; that cannot be undone. */
  get isLowPriority(): boolean {
    return this.#isLowPriority
  }

  get isBusy(): boolean {
    return this.#calls.length > 0
  }

  /** What it has had of a processor so far; where the system does not say, the time that has passed. */
  get processorMs(): number {
    return processorMs(this.#child.pid)
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
    if (!this.#isRunning || this.#calls.length >= MOST_CALLS) return Promise.reject(new ProcessEnd('killed', 1))
    const { promise: answer, resolve, reject } = Promise.withResolvers<Frame>()
    this.#calls.push({ limits, answer, resolve, reject, isGivenUp: false })
    // The time of a call begins when the one before it has been answered.
    if (this.#calls.length === 1) this.#lastSign = performance.now()
    this.tell(kind, number, parts)
    return answer
  }

  /** Nobody waits for this answer: where it does not come soon, the process is killed. */
  giveUp(answer: Promise<Frame>): void {
    const call = this.#calls.find((each) => each.answer === answer)
    if (!call) return
    call.isGivenUp = true
    if (call === this.#calls[0]) this.#endSoon()
  }

  /** To be called now and then while it is busy: ends it where it takes too long or too much. */
  watch(now: number): void {
    const [call] = this.#calls
    if (!call) return
    const { timeoutMs, memoryMb } = call.limits
    if (this.#isOverdue(now, timeoutMs)) this.kill('time')
    else if (residentMb(this.#child.pid) > memoryMb) this.kill('memory')
    else if (now - this.#lastSign > SHARE_MS && this.#workMs() > SHARE_MS) this.#putLast()
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
    return silentMs > MOST_PATIENCE * timeoutMs || this.#workMs() >= timeoutMs
  }

  /** What it has had of a processor since its last sign, or little less. */
  #workMs(): number {
    return processorMs(this.#child.pid) - this.#workAt.ms
  }

  #putLast(): void {
    const { pid } = this.#child
    if (this.#isLowPriority || pid === undefined) return
    this.#isLowPriority = true
    try {
      setPriority(pid, LAST_PRIORITY)
    } catch {
      // It has ended.
    }
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
    clearTimeout(this.#impatience)
    const call = this.#calls.shift()
    if (call) call.resolve(frame)
    else this.kill('protocol')
    if (this.#calls[0]?.isGivenUp) this.#endSoon()
  }

  #endSoon(): void {
    clearTimeout(this.#impatience)
    this.#impatience = setTimeout(() => this.kill('closed'), GRACE_MS)
  }

  #ended(status: number, isKilled = false): void {
    if (!this.#isRunning) return
    this.#isRunning = false
    running.delete(this)
    const cause = this.#cause ?? (isKilled ? 'killed' : 'itself')
    this.#cause = cause
    if (cause !== 'closed' && cause !== 'fatal')
      this.#log.warn('A sandbox process ended.', { cause, status, words: this.#lastWords })
    this.#onStart(false)
    clearTimeout(this.#impatience)
    // Who asked for a fatal end has been answered.
    const guilty = cause === 'fatal' ? undefined : this.#calls[0]
    for (const call of this.#calls) call.reject(new ProcessEnd(call === guilty ? cause : 'behind', status))
    this.#calls.length = 0
  }
}

const running = new Set<SandboxProcess>()

// Also where the server does not take the time to stop them.
process.on('exit', () => {
  for (const each of running) each.kill('closed')
})
