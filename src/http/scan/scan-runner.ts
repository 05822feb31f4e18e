/**
 * Has large bodies read by a thread of their own, one for the whole process, started when it is needed. A scan hands over
 * one result at a time, when it is asked for the next: nothing piles up, and the main thread does a little at a time.
 */
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { tooLarge } from '../../document/request-error.ts'
import {
  errorOf,
  type FromScanThread,
  ownBytes,
  type Scan,
  type ScanResult,
  type ToScanThread,
} from './scan-message.ts'

/** A thread that had nothing to do for so long is ended: it keeps memory of the largest body that it read. */
const IDLE_MS = 10_000

/** Beyond it the thread ends and the request is refused: a body of that kind would take the whole server with it. */
const HEAP_LIMIT_MB = 1024

interface Asking {
  readonly resolve: (result: ScanResult) => void
  readonly reject: (error: Error) => void
}

/** The results of a scan of a text, which must not be used any more by whoever hands it over. */
export async function* scanned(scan: Scan, text: Buffer): AsyncGenerator<ScanResult, void, void> {
  current ??= new ScanThread(() => {
    current = undefined
  })
  yield* current.scan(scan, text)
}

let current: ScanThread | undefined

class ScanThread {
  readonly #worker: Worker
  readonly #asking = new Map<number, Asking>()
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
      if (this.#jobs.size === 0) this.#rest()
    }
  }

  #ask(message: ToScanThread, memory: readonly ArrayBuffer[] = []): Promise<ScanResult> {
    return new Promise((resolve, reject) => {
      // Who waits for an answer keeps the process alive until then.
      this.#worker.ref()
      this.#asking.set(message.job, { resolve, reject })
      this.#send(message, memory)
    })
  }

  #send(message: ToScanThread, memory: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, memory)
  }

  #receive(message: FromScanThread): void {
    const asking = this.#asking.get(message.job)
    this.#asking.delete(message.job)
    if (this.#asking.size === 0) this.#worker.unref()
    if ('failure' in message) asking?.reject(errorOf(message.failure))
    else asking?.resolve(message.result)
  }

  #fail(error: Error): void {
    this.#onEnding()
    clearTimeout(this.#idle)
    const isFull = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
    for (const { reject } of this.#asking.values()) reject(isFull ? tooLarge() : error)
    this.#asking.clear()
  }

  #rest(): void {
    this.#idle = setTimeout(() => {
      this.#onEnding()
      void this.#worker.terminate()
    }, IDLE_MS).unref()
  }
}
