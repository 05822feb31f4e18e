/**
 * Runs scans of large bodies in threads: a few for the whole process, started on demand. A scan sends one result at a time, when
 * it is asked for the next one, so results do not pile up. A thread reads one body at a time. If that fills its heap or takes
 * too long, the thread ends and the request is refused.
 */
import { extname } from 'node:path'
import { Worker, type WorkerOptions } from 'node:worker_threads'
import { tooLarge } from '../document/request-error.ts'
import { freeBytes } from '../encoding/bytes/byte-sink.ts'
import type { MemoryLease } from '../runtime/memory-budget.ts'
import {
  type FromScanThread,
  type MatchResult,
  type MatchScan,
  ownBytes,
  parseError,
  type Scan,
  type ScanResult,
  type ToScanThread,
} from './scan-message.ts'
import { MOST_THREADS, type ScanSlot, ScanSlots } from './scan-slots.ts'

export interface ScanOptions {
  /** Of the heap of a thread. */
  readonly heapLimitMb?: number
  /** Time limit for one result, and the addition for each megabyte of the body. */
  readonly limitMs?: number
  readonly limitMsAMegabyte?: number
  readonly threads?: number
  readonly startWorker?: (options: WorkerOptions) => Worker
}

const THREAD_FILE = new URL(`./scan-thread${extname(import.meta.url)}`, import.meta.url)

/** An idle thread is ended after this time. To start one takes a tenth of a second of processor time. */
const IDLE_MS = 60_000
/** After a larger body the thread is ended: only that is certain to free its memory. */
const MUCH_BYTES = 16 * 1024 * 1024
const IDLE_AFTER_MUCH_MS = 1000

/** Beyond it the thread ends and the request is refused. In the main thread, the server would end. */
const HEAP_LIMIT_MB = 1024

/** Ten times what the slowest inputs take on an idle machine. */
const LIMIT_MS = 60_000
const LIMIT_MS_A_MEGABYTE = 1000
const MEGABYTE = 1024 * 1024

/** The memory of a scan beside its text, in multiples of it: a body, its term and copies of both, or one copy. */
const COPIES = { document: 3, bulk: 1, value: 1 } as const

/** The scan of a body. */
type BodyScan = Exclude<Scan, MatchScan>

export class ScanRunner {
  readonly #options: ScanOptions
  readonly #slots: ScanSlots
  /** The most recently used one is at the end. */
  readonly #idle: ScanThread[] = []

  constructor(options: ScanOptions = {}) {
    this.#options = options
    this.#slots = new ScanSlots(options.threads ?? MOST_THREADS)
  }

  /**
   * The results of the scan of a body. The caller must not use the text any more. The lease is that of the text, and grows while
   * there are several copies of it.
   */
  async *scan(scan: BodyScan, text: Buffer, memory?: MemoryLease): AsyncGenerator<ScanResult, void, void> {
    const textBytes = text.length
    const copyBytes = COPIES[scan.kind] * textBytes
    // Before a thread is taken: a scan that holds a thread must not wait for memory of scans that wait for a thread.
    await memory?.add(copyBytes)?.catch((error: unknown) => {
      freeBytes(text)
      throw error
    })
    const slot = await this.#slots.take({ bytes: textBytes })
    try {
      yield* this.#inThread(slot, textBytes + copyBytes, (thread) => thread.scan(scan, text))
    } finally {
      // The result is at most as large as the text was, apart from the term of a document.
      memory?.reduce(scan.kind === 'document' ? copyBytes - textBytes : copyBytes)
    }
  }

  /** Matches a stored document. It is copied when there is a thread for it: many queries may wait. */
  async match(scan: MatchScan, text: Uint8Array, signal?: AbortSignal): Promise<MatchResult> {
    const slot = await this.#slots.take({ bytes: text.length, isMatched: true, signal })
    const results = this.#inThread(slot, 2 * text.length, (thread) => {
      const copy = Buffer.allocUnsafeSlow(text.length)
      copy.set(text)
      return thread.scan(scan, copy)
    })
    for await (const result of results) if (result.kind === 'match') return result
    throw new Error('A scan ended without its result.')
  }

  /** The slot is released in every case. */
  async *#inThread(
    slot: ScanSlot,
    usedBytes: number,
    scan: (thread: ScanThread) => AsyncGenerator<ScanResult, void, void>,
  ): AsyncGenerator<ScanResult, void, void> {
    try {
      // The system may refuse to start one.
      const thread = this.#idle.pop() ?? new ScanThread(this.#options, (ended) => this.#forget(ended))
      try {
        yield* scan(thread)
      } finally {
        if (thread.isUsable) {
          this.#idle.push(thread)
          thread.startIdleTimer(usedBytes > MUCH_BYTES ? IDLE_AFTER_MUCH_MS : IDLE_MS)
        }
      }
    } finally {
      slot.release()
    }
  }

  #forget(thread: ScanThread): void {
    const index = this.#idle.indexOf(thread)
    if (index >= 0) this.#idle.splice(index, 1)
  }
}

const runner = new ScanRunner()

/** See `ScanRunner.scan`. */
export function scanned(scan: BodyScan, text: Buffer, memory?: MemoryLease): AsyncGenerator<ScanResult, void, void> {
  return runner.scan(scan, text, memory)
}

/** See `ScanRunner.match`. */
export function matched(scan: MatchScan, text: Uint8Array, signal?: AbortSignal): Promise<MatchResult> {
  return runner.match(scan, text, signal)
}

interface Request {
  readonly resolve: (result: ScanResult) => void
  readonly reject: (error: Error) => void
  readonly timeout: NodeJS.Timeout
}

class ScanThread {
  readonly #worker: Worker
  readonly #options: ScanOptions
  readonly #onEnding: (thread: ScanThread) => void
  #job = 0
  #request: Request | undefined
  #idle: NodeJS.Timeout | undefined
  /** The query that it matched a document for last. */
  #query: number | undefined
  /** Why the thread ended; undefined while it runs. */
  #end: Error | undefined

  /** Calls back when the thread takes no more work. */
  constructor(options: ScanOptions, onEnding: (thread: ScanThread) => void) {
    this.#options = options
    this.#onEnding = onEnding
    const { startWorker = (given) => new Worker(THREAD_FILE, given), heapLimitMb = HEAP_LIMIT_MB } = options
    this.#worker = startWorker({ name: 'scan', resourceLimits: { maxOldGenerationSizeMb: heapLimitMb } })
    this.#worker.unref()
    this.#worker.on('message', (message: FromScanThread) => this.#receive(message))
    this.#worker.on('error', (error) => this.#fail(isOutOfMemory(error) ? tooLarge() : error))
    this.#worker.on('exit', () => this.#fail(new Error('The scan thread ended.')))
  }

  get isUsable(): boolean {
    return this.#end === undefined && this.#request === undefined
  }

  async *scan(scan: Scan, text: Buffer): AsyncGenerator<ScanResult, void, void> {
    clearTimeout(this.#idle)
    const job = ++this.#job
    const bytes = ownBytes(text)
    const { limitMs: ofAny = LIMIT_MS, limitMsAMegabyte = LIMIT_MS_A_MEGABYTE } = this.#options
    const limitMs = ofAny + (bytes.length / MEGABYTE) * limitMsAMegabyte
    try {
      yield await this.#ask({ type: 'begin', job, scan: this.#shortened(scan), text: bytes }, limitMs, [bytes.buffer])
      for (;;) yield await this.#ask({ type: 'next', job }, limitMs)
    } finally {
      if (!this.#end) this.#worker.postMessage({ type: 'end', job } satisfies ToScanThread)
    }
  }

  /** Without what the thread has from the document before. */
  #shortened(scan: Scan): Scan {
    if (scan.kind !== 'match') return scan
    const isKnown = scan.query === this.#query
    this.#query = scan.query
    return isKnown ? { kind: 'match', query: scan.query, members: scan.members } : scan
  }

  startIdleTimer(idleMs: number): void {
    this.#idle = setTimeout(() => this.#terminate(new Error('The scan thread was idle.')), idleMs).unref()
  }

  #ask(message: ToScanThread, limitMs: number, memory: readonly ArrayBuffer[] = []): Promise<ScanResult> {
    return new Promise((resolve, reject) => {
      // A thread that has ended never answers.
      if (this.#end) throw this.#end
      // A pending request keeps the process alive.
      this.#worker.ref()
      const timeout = setTimeout(() => this.#terminate(tooLarge()), limitMs).unref()
      this.#request = { resolve, reject, timeout }
      this.#worker.postMessage(message, memory)
    })
  }

  #receive(message: FromScanThread): void {
    if (message.job !== this.#job) return
    const request = this.#settle()
    if ('failure' in message) request?.reject(parseError(message.failure))
    else request?.resolve(message.result)
  }

  #terminate(error: Error): void {
    this.#fail(error)
    void this.#worker.terminate()
  }

  #fail(error: Error): void {
    clearTimeout(this.#idle)
    this.#end ??= error
    this.#settle()?.reject(this.#end)
    this.#onEnding(this)
  }

  /** Ends the pending request. */
  #settle(): Request | undefined {
    const request = this.#request
    this.#request = undefined
    if (!request) return undefined
    clearTimeout(request.timeout)
    this.#worker.unref()
    return request
  }
}

function isOutOfMemory(error: Error): boolean {
  return 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
}
