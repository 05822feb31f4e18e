/**
 * The pool of sandbox processes: gives calls of functions a process. When none is free, calls wait; owners take turns, and some
 * processes are reserved for owners that have none. A program prefers a process that has loaded it. An owner whose functions
 * ended processes gets fewer of them, and none that others use. A batch may be queued behind another one of its program, so that
 * the process need not wait for the server between the two.
 */
import { availableParallelism } from 'node:os'
import { RequestError } from '../../document/request-error.ts'
import { FairQueue, mayTakeSlot, mayTakeSlotAsSuspect, type Run } from '../../runtime/fair-semaphore.ts'
import type { Log } from '../../runtime/log/log.ts'
import { Metrics } from '../../runtime/metrics.ts'
import { MOST_CALLS, type SandboxProcess } from './sandbox-process.ts'
import { type Idle, SandboxProcesses, type Use } from './sandbox-processes.ts'

export interface SandboxPoolOptions {
  readonly log: Log
  /** How many processes there may be. */
  readonly limit: () => number
  readonly metrics?: Metrics | undefined
}

/** What a call needs a process for. */
export interface ProcessRequest {
  readonly programKey: string
  /** Whether it may be queued behind another call of its program: only calls that end by themselves. */
  readonly mayFollow: boolean
}

interface Waiter extends ProcessRequest {
  readonly owner: string
  serve(sandbox: SandboxProcess): void
  refuse(error: Error): void
}

type MayTakeAnother = (use: Use, sandbox: SandboxProcess) => boolean

const MOST_WAITING = 10_000
/** How long an owner is a suspect: longer than its next calls wait. */
const SUSPECT_MS = 60_000
/** With more waiting owners than this, an owner whose calls were quick may overtake others that need a start. */
const CROWD_OWNERS = 4
/** How long an owner counts as quick. */
const QUICK_MS = 30_000
/** How long an idle process is reserved for its last owner, unless the other one has no process. */
const RECENT_USE_MS = 1_000
/** A program that used less processor time gets no second process: its start takes longer than that. */
const WORTH_ANOTHER_MS = 500
/** On a busy machine a program may take this many times as long by the clock. */
const MOST_PATIENCE = 4
/** A pause up to this time does not interrupt the work on a program. */
const SHORT_GAP_MS = 50

/** Starts at a time: each takes a processor. Read once, since the call is slow. */
const MOST_STARTS = availableParallelism()

export class SandboxPool {
  readonly #limit: () => number
  readonly #waiting = new FairQueue<Waiter>()
  readonly #processes: SandboxProcesses
  /** Owners whose functions ended a process, and until when that counts. */
  readonly #suspects = new Map<string, number>()
  /** Owners whose last call ended soon, and until when that counts. */
  readonly #quick = new Map<string, number>()
  #wasQuickServed = false

  constructor({ log, limit, metrics = new Metrics() }: SandboxPoolOptions) {
    this.#limit = limit
    this.#processes = new SandboxProcesses(log, metrics, {
      onStarted: () => this.#serve(),
      onNoStart: () => this.#refuseAll(cannotStart()),
      onCheck: (nowMs) => this.#expire(nowMs),
    })
    metrics.gauge(
      'settle_function_calls_waiting',
      'calls of functions that wait for a process',
      () => this.#waiting.size,
    )
  }

  /** A process that must be given back, even if it ends. Rejects with the signal's reason when that aborts first. */
  take({ owner, signal }: Run, { programKey, mayFollow }: ProcessRequest): Promise<SandboxProcess> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#processes.isClosed) throw closed()
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

  /** Starts a process before the first call, unless there is one. */
  prepare(): void {
    if (this.#processes.isClosed || this.#busy.size + this.#idle.size + this.#processes.starting > 0) return
    this.#processes.start()
  }

  giveBack(sandbox: SandboxProcess): void {
    const use = this.#busy.get(sandbox)
    if (!use) return
    if (--use.calls === 0) this.#free(sandbox, use)
    this.#serve()
  }

  /** Resolves when all processes have ended; calls under way fail. */
  async close(): Promise<void> {
    const closing = this.#processes.close()
    this.#refuseAll(closed())
    await closing
  }

  get #idle(): ReadonlyMap<SandboxProcess, Idle> {
    return this.#processes.idle
  }

  get #busy(): ReadonlyMap<SandboxProcess, Use> {
    return this.#processes.busy
  }

  #free(sandbox: SandboxProcess, use: Use): void {
    const { owner } = use
    const now = performance.now()
    if (sandbox.cause || sandbox.isLowPriority) this.#quick.delete(owner)
    else this.#quick.set(owner, now + QUICK_MS)
    const isFault = this.#processes.free(sandbox, use)
    if (isFault) this.#suspects.set(owner, now + SUSPECT_MS)
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
    const isFull = this.#busy.size + this.#processes.starting >= Math.min(this.#limit(), MOST_STARTS)
    this.#serveBehind((use, sandbox) => isFull || this.#isBusyShortly(use, sandbox))
    // A waiting call gets the first free process: a new one, or one that becomes free before that has started.
    while (!this.#processes.isClosed && this.#processes.starting < this.#mostStarts()) this.#processes.start()
  }

  /** Returns whether there was a process for it. */
  #serveIdle(waiter: Waiter): boolean {
    const chosen = this.#idleFor(waiter)
    if (!chosen) return false
    const { sandbox, idle } = chosen
    const { owner, programKey, mayFollow } = waiter
    const now = performance.now()
    const continues = idle.program?.key === programKey && now - idle.since < SHORT_GAP_MS
    // A system call, made only for calls that may be long.
    const begun = continues ? idle.program : { since: now, workMs: mayFollow ? sandbox.processorMs : 0 }
    this.#processes.occupy(sandbox, { owner, programKey, since: begun.since, workMs: begun.workMs, calls: 1 })
    waiter.serve(sandbox)
    return true
  }

  /** Queues calls behind others of their program, only while such a call is next in turn. */
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

  /** Whether a second process for the program would not be worth its start yet. */
  #isBusyShortly({ since, workMs }: Use, sandbox: SandboxProcess): boolean {
    const busyMs = performance.now() - since
    if (busyMs < WORTH_ANOTHER_MS) return true
    return busyMs < MOST_PATIENCE * WORTH_ANOTHER_MS && sandbox.processorMs - workMs < WORTH_ANOTHER_MS
  }

  #mostStarts(): number {
    // Where processes are idle, the owners that wait have had their share, or are suspects.
    const mayStart = (owner: string) => this.#mayHaveMore(owner) && this.#mustStart(owner)
    if (this.#idle.size > 0 && !this.#waiting.some(mayStart)) return 0
    const most = Math.min(this.#limit() - this.#busy.size - this.#idle.size, MOST_STARTS)
    return Math.min(this.#wanted(most), most)
  }

  /** How many processes would serve all waiting calls, counted up to `most`: calls of a program that may follow share one. */
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

  /** Whether no idle process is for this owner. Where no more can be started, idle ones are for all. */
  #mustStart(owner: string): boolean {
    if (this.#isNewcomer(owner)) return false
    if (this.#busy.size + this.#idle.size >= this.#limit()) return false
    for (const sandbox of this.#idle.keys()) if (this.#isFor(owner, sandbox)) return false
    return true
  }

  /** Newcomers come first; among many of them, every other time, one whose functions were quick before. */
  #rankOf(owner: string): number {
    if (!this.#isNewcomer(owner)) return 2
    const mayOvertake = !this.#wasQuickServed && this.#waiting.owners > CROWD_OWNERS
    return mayOvertake && this.#quick.has(owner) ? 0 : 1
  }

  /** An owner without a process that is not a suspect. */
  #isNewcomer(owner: string): boolean {
    return !this.#suspects.has(owner) && this.#busyOf((each) => each === owner) === 0
  }

  #isFor(owner: string, sandbox: SandboxProcess): boolean {
    const idle = this.#idle.get(sandbox)
    if (idle === undefined) return false
    if (idle.owner === undefined || idle.owner === owner) return true
    // Suspects share processes: one that waits for a new process would be overtaken by those that have one.
    if (this.#suspects.has(owner)) return this.#suspects.has(idle.owner)
    // The last owner may need it again at once.
    return performance.now() - idle.since > RECENT_USE_MS
  }

  #mayHaveMore(owner: string): boolean {
    const slots = this.#limit()
    const ofAll = this.#busy.size
    const ofOwner = this.#busyOf((each) => each === owner)
    if (!this.#suspects.has(owner)) return mayTakeSlot(slots, { ofAll, ofOwner })
    const ofSuspects = this.#busyOf((each) => this.#suspects.has(each))
    return mayTakeSlotAsSuspect(slots, { ofAll, ofOwner, ofSuspects })
  }

  #busyOf(isCounted: (owner: string) => boolean): number {
    let count = 0
    for (const { owner } of this.#busy.values()) if (isCounted(owner)) count++
    return count
  }

  /** A process that has loaded the program, or else one for this owner, or else the most recently used one. */
  #idleFor({ owner, programKey }: Waiter): { readonly sandbox: SandboxProcess; readonly idle: Idle } | undefined {
    const worthOf = (sandbox: SandboxProcess) =>
      sandbox.programs.has(programKey) ? 2 : Number(this.#isFor(owner, sandbox))
    let chosen: { readonly sandbox: SandboxProcess; readonly idle: Idle } | undefined
    let worth = 0
    for (const [sandbox, idle] of this.#idle) {
      // A process that has ended is skipped.
      if (!sandbox.isRunning) this.#processes.forget(sandbox)
      else if (worthOf(sandbox) >= worth) {
        chosen = { sandbox, idle }
        worth = worthOf(sandbox)
      }
    }
    return chosen
  }

  #refuseAll(error: Error): void {
    for (let waiter = this.#waiting.shift(); waiter; waiter = this.#waiting.shift()) waiter.refuse(error)
  }

  /** Owners are suspects, or quick, only for a while. */
  #expire(nowMs: number): void {
    for (const owners of [this.#suspects, this.#quick]) {
      for (const [owner, until] of owners) if (nowMs > until) owners.delete(owner)
    }
  }
}

function closed(): RequestError {
  return new RequestError('failed', 'os_process_error', 'The sandbox is closed.')
}

function cannotStart(): RequestError {
  return new RequestError('failed', 'os_process_error', 'No sandbox process could be started.')
}

function tooMany(): RequestError {
  return new RequestError('unavailable', 'service_unavailable', 'Too many function calls are waiting.')
}
