/**
 * Has large bodies read by threads of their own, few for the whole process, started when they are needed. A scan hands
 * over one result at a time, when it is asked for the next: nothing piles up, and the main thread does a little at a time.
 */
import { availableParallelism } from 'node:os'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { tooLarge } from '../document/request-error.ts'
import {
  type FromScanThread,
  ownBytes,
  parseError,
  type Scan,
  type ScanResult,
  type ToScanThread,
} from './scan-message.ts'

/** A thread that had nothing to do for so long is ended; to start one takes a tenth of a second of a processor. */
const IDLE_MS = 60_000

/** Beyond it the thread ends and the request is refused: a body of that kind would take the whole server with it. */
const HEAP_LIMIT_MB = 1024

interface Asking {
  readonly resolve: (result: ScanResult) => void
  readonly reject: (error: Error) => void
}

/** The results of a scan of a text, which must not be used any more by whoever hands it over. */
export async function* scanned(scan: Scan, text: Buffer): AsyncGenerator<ScanResult, void, void> {
  yield* leastBusyThread().scan(scan, text)
}

/** One that works on a body for long must not keep all others waiting. */
const MOST_THREADS = Math.max(2, Math.min(4, availableParallelism()))

const threads = new Set<ScanThread>()

function leastBusyThread(): ScanThread {
  let least: ScanThread | undefined
  for (const thread of threads) if (!least || thread.load < least.load) least = thread
  if (least && (least.load === 0 || threads.size >= MOST_THREADS)) return least
  const thread = new ScanThread(() => threads.delete(thread))
  threads.add(thread)
  return thread
}

class ScanThread {
  readonly #worker: Worker
  readonly #pending = new Map<number, Asking>()
  readonly #jobs = new Set<number>()
  readonly #onEnding: () => void
  #lastJob = 0
  #idle: NodeJS.Timeout | undefined

  /** Calls back when it can be given no more work. */
  constructor(onEnding: () => void) {
    this.#onEnding = onEnding
    const file = new URL(`./scan-thread${extname(import.meta.url)}`, import.meta.url)
    this.#worker = new Worker(file, { name: 'scan', resourceLimits: { maxOldGenerationSizeMb: HEAP_LIMIT_MB } })
    this.#worker.unref()
    this.#worker.on('message', (message: FromScanThread) => this.#receive(message))
    this.#worker.on('error', (error) => this.#fail(error))
    this.#worker.on('exit', () => this.#fail(new Error('The scan thread ended.')))
  }

  /** Bodies that it works on. */
  get load(): number {
    return this.#jobs.size
  }

  async *scan(scan: Scan, text: Buffer): AsyncGenerator<ScanResult, void, void> {
    const job = ++this.#lastJob
    this.#jobs.add(job)
    clearTimeout(this.#idle)
    const bytes = ownBytes(text)
    try {
      yield await this.#ask({ type: 'begin', job, scan, text: bytes }, [bytes.buffer])
      for (;;) yield await this.#ask({ type: 'next', job })
    } finally {
      this.#send({ type: 'end', job })
      this.#jobs.delete(job)
      if (this.#jobs.size === 0) this.#startIdleTimer()
    }
  }

  #ask(message: ToScanThread, memory: readonly ArrayBuffer[] = []): Promise<ScanResult> {
    return new Promise((resolve, reject) => {
      // Who waits for an answer keeps the process alive until then.
      this.#worker.ref()
      this.#pending.set(message.job, { resolve, reject })
      this.#send(message, memory)
    })
  }

  #send(message: ToScanThread, memory: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, memory)
  }

  #receive(message: FromScanThread): void {
    const asking = this.#pending.get(message.job)
    this.#pending.delete(message.job)
    if (this.#pending.size === 0) this.#worker.unref()
    if ('failure' in message) asking?.reject(parseError(message.failure))
    else asking?.resolve(message.result)
  }

  #fail(error: Error): void {
    this.#onEnding()
    clearTimeout(this.#idle)
    const isFull = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
    for (const { reject } of this.#pending.values()) reject(isFull ? tooLarge() : error)
    this.#pending.clear()
  }

  #startIdleTimer(): void {
    this.#idle = setTimeout(() => {
      this.#onEnding()
      void this.#worker.terminate()
    }, IDLE_MS).unref()
  }
}
