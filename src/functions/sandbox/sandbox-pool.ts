/**
 * The pool of sandbox processes: as many as are needed at a time, up to a limit, kept warm for a while. When none is free,
 * callers wait; owners take turns, and some processes are reserved for owners that have none. A program prefers a process that
 * has loaded it. An owner whose functions brought processes down gets fewer, and new ones. A batch may be queued behind another
 * one of its program, so that the process need not wait for the server between the two.
 */
import { availableParallelism } from 'node:os'
import { RequestError } from '../../document/request-error.ts'
import { FairQueue, mayTakeSlot, mayTakeSlotAsSuspect, type Run } from '../../runtime/fair-semaphore.ts'
import type { MetricCounter } from '../../runtime/instruments.ts'
import type { Log } from '../../runtime/log/log.ts'
import { Metrics } from '../../runtime/metrics.ts'
import { type EndCause, MOST_CALLS, SandboxProcess } from './sandbox-process.ts'

export interface SandboxPoolOptions {
  readonly log: Log
  /** How many there may be now. */
  readonly limit: () => number
  readonly metrics?: Metrics | undefined
}

export interface Wish {
  readonly programKey: string
  /** Whether it may be put behind another call like it: only calls that come to their end by themselves. */
  readonly mayFollow: boolean
}

interface Waiter extends Wish {
  readonly owner: string
  serve(sandbox: SandboxProcess): void
  refuse(error: Error): void
}

/** What a process is busy with. */
interface Use {
  readonly owner: string
  readonly programKey: string
  /** Since when, but for short pauses. */
  readonly since: number
  /** The processor time that the process had used then, where calls may follow each other in it. */
  readonly workMs: number
  calls: number
}

type MayTakeAnother = (use: Use, sandbox: SandboxProcess) => boolean

/** A process without work. */
interface Rest {
  readonly since: number
  /** Who used it last. */
  readonly owner: string | undefined
  /** What it was used for last, and since when. */
  readonly program?: { readonly key: string; readonly since: number; readonly workMs: number }
}

const MOST_WAITING = 10_000
/** How long a process is kept without work. */
const IDLE_LIMIT_MS = 120_000
/** How long an owner is a suspect: longer than its next calls wait. */
const BLAME_MS = 60_000
/** With more owners than this, who was quick before need not wait for all of them to start a process. */
const CROWD_OWNERS = 4
/** How long an owner is known to be quick. */
const QUICK_MS = 30_000
/** So long an idle process is kept from others that have one already. */
const RECENT_USE_MS = 1_000
/** A program that takes less of a processor needs no second process: to start that takes a processor for long. */
const WORTH_ANOTHER_MS = 500
/** On a busy machine it is given so many times as long on the clock. */
const MOST_PATIENCE = 4
/** So long a program may pause and still count as having gone on. */
const SHORT_GAP_MS = 50
const BUSY_WATCH_MS = 50
const IDLE_WATCH_MS = 10_000
/** So many starts that fail one after the other, and whoever waits is told. */
const MOST_FAILED_STARTS = 20

/** At a time: a start takes a processor. Asking for their number is slow. */
const MOST_STARTS = availableParallelism()

export class SandboxPool {
  readonly #options: SandboxPoolOptions
  readonly #waiting = new FairQueue<Waiter>()
  readonly #starting = new Set<SandboxProcess>()
  /** The one that was used last is at the end. */
  readonly #idle = new Map<SandboxProcess, Rest>()
  readonly #busy = new Map<SandboxProcess, Use>()
  /** Owners whose functions brought a process down lately, and until when that counts. */
  readonly #blamed = new Map<string, number>()
  /** Owners whose last call came to its end soon, and until when that counts. */
  readonly #quick = new Map<string, number>()
  #wasQuickServed = false
  #failedStarts = 0
  #watch: NodeJS.Timeout | undefined
  #watchMs = 0
  #isClosed = false

  readonly #starts: MetricCounter
  readonly #faults: ReadonlyMap<EndCause, MetricCounter>

  constructor(options: SandboxPoolOptions) {
    this.#options = options
    const { metrics = new Metrics() } = options
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
    metrics.gauge(
      'settle_function_calls_waiting',
      'calls of functions that wait for a process',
      () => this.#waiting.size,
    )
  }

  /** A process that is to be given back, whatever becomes of it. Rejects with the signal's reason when that comes first. */
  take({ owner, signal }: Run, { programKey, mayFollow }: Wish): Promise<SandboxProcess> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#isClosed) throw closed()
      if (this.#waiting.size >= MOST_WAITING) throw tooMany()
      const giveUp = () => {
        if (this.#waiting.remove(owner, waiter)) reject(signal?.reason)
      }
      const forget = () => signal?.removeEventListener('abort', giveUp)
      const waiter: Waiter = {
        owner,
        programKey,
        mayFollow,
        serve: (sandbox) => {
          forget()
          resolve(sandbox)
        },
        refuse: (error) => {
          forget()
          reject(error)
        },
      }
      signal?.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(owner, waiter)
      this.#serve()
    })
  }

  /** Has a process at hand for whoever comes first, for as long as any is kept without work. */
  prepare(): void {
    if (this.#isClosed || this.#busy.size + this.#idle.size + this.#starting.size > 0) return
    this.#start()
    this.#watchEvery(BUSY_WATCH_MS)
  }

  giveBack(sandbox: SandboxProcess): void {
    const use = this.#busy.get(sandbox)
    if (!use) return
    if (--use.calls === 0) this.#free(sandbox, use)
    this.#serve()
  }

  /** Resolves when all are gone; calls that are under way fail. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#watch)
    this.#refuseAll(closed())
    const all = [...this.#starting, ...this.#idle.keys(), ...this.#busy.keys()]
    this.#idle.clear()
    for (const sandbox of all) {
      sandbox.hold()
      sandbox.kill('closed')
    }
    await Promise.all(all.map(({ exited }) => exited))
  }

  #free(sandbox: SandboxProcess, { owner, programKey, since, workMs }: Use): void {
    this.#busy.delete(sandbox)
    const now = performance.now()
    if (sandbox.cause && FAULTS.has(sandbox.cause)) {
      this.#blamed.set(owner, now + BLAME_MS)
      this.#faults.get(sandbox.cause)?.add()
    }
    if (sandbox.cause || sandbox.isLast) this.#quick.delete(owner)
    else this.#quick.set(owner, now + QUICK_MS)
    sandbox.release()
    // What is left of a call must not be taken for the answer to the next one, nor one be slow for what another did.
    if (this.#isClosed || sandbox.isBusy || sandbox.isLast) sandbox.kill('closed')
    else if (sandbox.isRunning) {
      this.#idle.set(sandbox, { since: now, owner, program: { key: programKey, since, workMs } })
    }
  }

  #serve(): void {
    this.#serveBehind((use, sandbox) => this.#isBusyShortly(use, sandbox))
    while (this.#waiting.size > 0 && this.#idle.size > 0) {
      const waiter = this.#waiting.shift(
        (owner) => this.#mayHaveMore(owner) && !this.#mustStart(owner),
        (owner) => this.#rankOf(owner),
      )
      if (!waiter) break
      this.#wasQuickServed = !this.#wasQuickServed && this.#quick.has(waiter.owner)
      if (!this.#serveIdle(waiter)) {
        this.#waiting.push(waiter.owner, waiter)
        break
      }
    }
    // More processes than processors would not be faster.
    const isFull = this.#busy.size + this.#starting.size >= Math.min(this.#options.limit(), MOST_STARTS)
    this.#serveBehind((use, sandbox) => isFull || this.#isBusyShortly(use, sandbox))
    // Whoever waits gets the first process that is free: a new one, or one that is done before it has started.
    while (!this.#isClosed && this.#starting.size < this.#mostStarts()) this.#start()
    if (this.#busy.size + this.#starting.size > 0) this.#watchEvery(BUSY_WATCH_MS)
  }

  /** Whether there was a process for it. */
  #serveIdle(waiter: Waiter): boolean {
    const chosen = this.#idleFor(waiter)
    if (!chosen) return false
    const { sandbox, rest } = chosen
    const { owner, programKey, mayFollow } = waiter
    const now = performance.now()
    const goesOn = rest.program?.key === programKey && now - rest.since < SHORT_GAP_MS
    // The system is asked for the sake of long work only.
    const begun = goesOn ? rest.program : { since: now, workMs: mayFollow ? sandbox.processorMs : 0 }
    this.#busy.set(sandbox, { owner, programKey, since: begun.since, workMs: begun.workMs, calls: 1 })
    sandbox.hold()
    waiter.serve(sandbox)
    return true
  }

  /** Only whose turn it is: nobody gets ahead of anybody. */
  #serveBehind(mayTakeAnother: MayTakeAnother): void {
    for (let waiter = this.#waiting.first; waiter?.mayFollow; waiter = this.#waiting.first) {
      const sandbox = this.#sharedFor(waiter.programKey, mayTakeAnother)
      if (!sandbox) return
      this.#waiting.shift()
      waiter.serve(sandbox)
    }
  }

  #sharedFor(programKey: string, mayTakeAnother: MayTakeAnother): SandboxProcess | undefined {
    for (const [sandbox, use] of this.#busy) {
      if (use.programKey !== programKey || use.calls >= MOST_CALLS || !sandbox.isRunning) continue
      if (!mayTakeAnother(use, sandbox)) continue
      use.calls++
      return sandbox
    }
    return undefined
  }

  /** Then a second process is not worth its start, and on a machine of few processors not even its share of one. */
  #isBusyShortly({ since, workMs }: Use, sandbox: SandboxProcess): boolean {
    const busyMs = performance.now() - since
    if (busyMs < WORTH_ANOTHER_MS) return true
    return busyMs < MOST_PATIENCE * WORTH_ANOTHER_MS && sandbox.processorMs - workMs < WORTH_ANOTHER_MS
  }

  #mostStarts(): number {
    // Where some are idle, those that wait have had their share, or a bad name.
    const mayStart = (owner: string) => this.#mayHaveMore(owner) && this.#mustStart(owner)
    if (this.#idle.size > 0 && !this.#waiting.some(mayStart)) return 0
    const most = Math.min(this.#options.limit() - this.#busy.size - this.#idle.size, MOST_STARTS)
    return Math.min(this.#wanted(most), most)
  }

  /** How many processes would serve all who wait, counted up to so many: calls of a program that may follow share one. */
  #wanted(most: number): number {
    const following = new Map<string, number>()
    let wanted = 0
    for (const { programKey, mayFollow } of this.#waiting.values()) {
      if (wanted >= most) break
      const before = mayFollow ? (following.get(programKey) ?? 0) : 0
      if (before % MOST_CALLS === 0) wanted++
      if (mayFollow) following.set(programKey, before + 1)
    }
    return wanted
  }

  /** Whether what is idle is not for this owner. Where no more can be started it is for everybody. */
  #mustStart(owner: string): boolean {
    if (this.#isNewcomer(owner)) return false
    if (this.#busy.size + this.#idle.size >= this.#options.limit()) return false
    for (const sandbox of this.#idle.keys()) if (this.#isFor(owner, sandbox)) return false
    return true
  }

  /** Newcomers come first; of these, in a crowd and every other time, one whose functions were quick before. */
  #rankOf(owner: string): number {
    if (!this.#isNewcomer(owner)) return 2
    const mayOvertake = !this.#wasQuickServed && this.#waiting.owners > CROWD_OWNERS
    return mayOvertake && this.#quick.has(owner) ? 0 : 1
  }

  /** One that has no process, and brought none down lately. */
  #isNewcomer(owner: string): boolean {
    return !this.#blamed.has(owner) && this.#busyOf((each) => each === owner) === 0
  }

  #isFor(owner: string, sandbox: SandboxProcess): boolean {
    const rest = this.#idle.get(sandbox)
    if (rest === undefined) return false
    if (rest.owner === undefined || rest.owner === owner) return true
    // Suspects share theirs: who waits for a new one would be overtaken by those that have one.
    if (this.#blamed.has(owner)) return this.#blamed.has(rest.owner)
    // Whose calls follow each other needs it again at once.
    return performance.now() - rest.since > RECENT_USE_MS
  }

  #start(): void {
    const sandbox = new SandboxProcess(this.#options.log)
    this.#starts.add()
    sandbox.hold()
    this.#starting.add(sandbox)
    sandbox.started.then((hasStarted) => {
      this.#starting.delete(sandbox)
      sandbox.release()
      this.#failedStarts = hasStarted ? 0 : this.#failedStarts + 1
      if (hasStarted && !this.#isClosed) this.#idle.set(sandbox, { since: performance.now(), owner: undefined })
      if (this.#failedStarts >= MOST_FAILED_STARTS) this.#refuseAll(cannotStart())
      this.#serve()
    })
  }

  #mayHaveMore(owner: string): boolean {
    const slots = this.#options.limit()
    const ofAll = this.#busy.size
    const ofOwner = this.#busyOf((each) => each === owner)
    if (!this.#blamed.has(owner)) return mayTakeSlot(slots, { ofAll, ofOwner })
    const ofSuspects = this.#busyOf((each) => this.#blamed.has(each))
    return mayTakeSlotAsSuspect(slots, { ofAll, ofOwner, ofSuspects })
  }

  #busyOf(isSuch: (owner: string) => boolean): number {
    let count = 0
    for (const { owner } of this.#busy.values()) if (isSuch(owner)) count++
    return count
  }

  /** One that knows the program, or else one that nobody else has used, or else the one that was used last. */
  #idleFor({ owner, programKey }: Waiter): { readonly sandbox: SandboxProcess; readonly rest: Rest } | undefined {
    const worthOf = (sandbox: SandboxProcess) =>
      sandbox.programs.has(programKey) ? 2 : Number(this.#isFor(owner, sandbox))
    let chosen: { readonly sandbox: SandboxProcess; readonly rest: Rest } | undefined
    let worth = 0
    for (const [sandbox, rest] of this.#idle) {
      // A process that has ended is skipped.
      if (!sandbox.isRunning) this.#idle.delete(sandbox)
      else if (worthOf(sandbox) >= worth) {
        chosen = { sandbox, rest }
        worth = worthOf(sandbox)
      }
    }
    if (chosen) this.#idle.delete(chosen.sandbox)
    return chosen
  }

  #refuseAll(error: Error): void {
    for (let waiter = this.#waiting.shift(); waiter; waiter = this.#waiting.shift()) waiter.refuse(error)
    this.#failedStarts = 0
  }

  #watchEvery(delayMs: number): void {
    if (this.#isClosed || (this.#watch && this.#watchMs === delayMs)) return
    clearInterval(this.#watch)
    this.#watchMs = delayMs
    this.#watch = setInterval(() => this.#look(), delayMs).unref()
  }

  /** Ends who takes too long, and who has had nothing to do for long. Looks less often while nothing goes on. */
  #look(): void {
    const now = performance.now()
    for (const sandbox of this.#starting) sandbox.watchStart(now)
    for (const sandbox of this.#busy.keys()) sandbox.watch(now)
    for (const owners of [this.#blamed, this.#quick]) {
      for (const [owner, until] of owners) if (now > until) owners.delete(owner)
    }
    for (const [sandbox, { since }] of this.#idle) {
      if (now - since < IDLE_LIMIT_MS) continue
      this.#idle.delete(sandbox)
      sandbox.kill('closed')
    }
    if (this.#busy.size + this.#starting.size > 0) return
    if (this.#idle.size > 0) this.#watchEvery(IDLE_WATCH_MS)
    else {
      clearInterval(this.#watch)
      this.#watch = undefined
    }
  }
}

const FAULTS: ReadonlySet<EndCause> = new Set(['time', 'memory', 'protocol', 'itself'])

function closed(): RequestError {
  return new RequestError('failed', 'os_process_error', 'The sandbox is closed.')
}

function cannotStart(): RequestError {
  return new RequestError('failed', 'os_process_error', 'No sandbox process could be started.')
}

function tooMany(): RequestError {
  return new RequestError('unavailable', 'service_unavailable', 'Too many function calls are waiting.')
}
