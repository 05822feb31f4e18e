/**
 * The sandbox processes of a pool and their life: starting, idle, busy, ended. A busy process that takes too long is killed,
 * and an idle one ends after two minutes. Which call gets which process is decided by `sandbox-pool.ts`.
 */
import type { MetricCounter } from '../../runtime/instruments.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import { type EndCause, SandboxProcess } from './sandbox-process.ts'

/** The calls that a process is busy with. */
export interface Use {
  readonly owner: string
  readonly programKey: string
  /** When the work on this program began; short pauses do not count. */
  readonly since: number
  /** The processor time that the process had used by then, where calls may follow each other in it. */
  readonly workMs: number
  calls: number
}

/** What is known of an idle process. */
export interface Idle {
  readonly since: number
  /** The last owner; undefined for a new process. */
  readonly owner: string | undefined
  /** The last program, and when the work on it began. */
  readonly program?: { readonly key: string; readonly since: number; readonly workMs: number }
}

export interface ProcessListener {
  /** A process has started, or could not. */
  onStarted(): void
  /** Too many starts failed one after the other. */
  onNoStart(): void
  /** Called with each check of the processes. */
  onCheck(nowMs: number): void
}

/** How long a process is kept without work. */
const IDLE_LIMIT_MS = 120_000
const BUSY_CHECK_MS = 50
const IDLE_CHECK_MS = 10_000
/** After this number of failed starts in a row, waiting calls are refused. */
const MOST_FAILED_STARTS = 20

/** Ends of a process that a function causes. */
const FAULTS: ReadonlySet<EndCause> = new Set(['time', 'memory', 'protocol', 'itself'])

export class SandboxProcesses {
  readonly #log: Log
  readonly #listener: ProcessListener
  readonly #starting = new Set<SandboxProcess>()
  /** The most recently used one is at the end. */
  readonly #idle = new Map<SandboxProcess, Idle>()
  readonly #busy = new Map<SandboxProcess, Use>()
  readonly #starts: MetricCounter
  readonly #faults: ReadonlyMap<EndCause, MetricCounter>
  #failedStarts = 0
  #timer: NodeJS.Timeout | undefined
  #timerMs = 0
  #isClosed = false

  constructor(log: Log, metrics: Metrics, listener: ProcessListener) {
    this.#log = log
    this.#listener = listener
    this.#starts = metrics.counter('settle_sandbox_starts_total', 'sandbox processes that were started')
    const help = 'sandbox processes that a function brought down, by cause'
    this.#faults = new Map(
      [...FAULTS].map((cause) => [cause, metrics.counter('settle_sandbox_faults_total', help, { cause })]),
    )
    metrics.gauge('settle_sandbox_processes', 'sandbox processes of the server', () => [
      [{ state: 'busy' }, this.#busy.size],
      [{ state: 'idle' }, this.#idle.size],
      [{ state: 'starting' }, this.#starting.size],
    ])
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  get starting(): number {
    return this.#starting.size
  }

  get idle(): ReadonlyMap<SandboxProcess, Idle> {
    return this.#idle
  }

  get busy(): ReadonlyMap<SandboxProcess, Use> {
    return this.#busy
  }

  start(): void {
    const sandbox = new SandboxProcess(this.#log)
    this.#starts.add()
    sandbox.hold()
    this.#starting.add(sandbox)
    sandbox.started.then((hasStarted) => {
      this.#starting.delete(sandbox)
      sandbox.release()
      this.#failedStarts = hasStarted ? 0 : this.#failedStarts + 1
      if (hasStarted && !this.#isClosed) this.#idle.set(sandbox, { since: performance.now(), owner: undefined })
      if (this.#failedStarts >= MOST_FAILED_STARTS) {
        this.#failedStarts = 0
        this.#listener.onNoStart()
      }
      this.#listener.onStarted()
    })
    this.#checkEvery(BUSY_CHECK_MS)
  }

  /** An idle process becomes busy. */
  occupy(sandbox: SandboxProcess, use: Use): void {
    this.#idle.delete(sandbox)
    this.#busy.set(sandbox, use)
    sandbox.hold()
    this.#checkEvery(BUSY_CHECK_MS)
  }

  /** A busy process becomes idle, or ends. Returns whether a function ended it. */
  free(sandbox: SandboxProcess, { owner, programKey, since, workMs }: Use): boolean {
    this.#busy.delete(sandbox)
    const isFault = sandbox.cause !== undefined && FAULTS.has(sandbox.cause)
    if (isFault && sandbox.cause) this.#faults.get(sandbox.cause)?.add()
    sandbox.release()
    // The rest of a call must not be taken for the answer to the next one, and no call may be slow because of another one.
    if (this.#isClosed || sandbox.isBusy || sandbox.isLowPriority) sandbox.kill('closed')
    else if (sandbox.isRunning) {
      this.#idle.set(sandbox, { since: performance.now(), owner, program: { key: programKey, since, workMs } })
    }
    return isFault
  }

  /** Forgets an idle process that has ended. */
  forget(sandbox: SandboxProcess): void {
    this.#idle.delete(sandbox)
  }

  /** Resolves when all have ended; calls under way fail. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    const all = [...this.#starting, ...this.#idle.keys(), ...this.#busy.keys()]
    this.#idle.clear()
    for (const sandbox of all) {
      sandbox.hold()
      sandbox.kill('closed')
    }
    await Promise.all(all.map(({ exited }) => exited))
  }

  #checkEvery(delayMs: number): void {
    if (this.#isClosed || (this.#timer && this.#timerMs === delayMs)) return
    clearInterval(this.#timer)
    this.#timerMs = delayMs
    this.#timer = setInterval(() => this.#check(), delayMs).unref()
  }

  /** Kills processes that take too long, and ends those that were idle for long. Runs less often while all are idle. */
  #check(): void {
    const now = performance.now()
    for (const sandbox of this.#starting) sandbox.watchStart(now)
    for (const sandbox of this.#busy.keys()) sandbox.watch(now)
    this.#listener.onCheck(now)
    for (const [sandbox, { since }] of this.#idle) {
      if (now - since < IDLE_LIMIT_MS) continue
      this.#idle.delete(sandbox)
      sandbox.kill('closed')
    }
    if (this.#busy.size + this.#starting.size > 0) return
    if (this.#idle.size > 0) this.#checkEvery(IDLE_CHECK_MS)
    else {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }
}
