/**
 * `npm run bench:bulk-overlap`: what the main thread could still do while a commit of `_bulk_docs` requests is written and flushed.
 * Several requests at a time in one process and without sockets, so the main thread has less to do than in a server: what
 * it prints is an upper bound.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NewRevisionEdit } from '../src/database/writing/edit.ts'
import { WriteMetrics, WriteQueue } from '../src/database/writing/write-queue.ts'
import type { SentDocument } from '../src/document/document-fields.ts'
import { joinedText } from '../src/http/bodies/joined-text.ts'
import { bulkRequestIn } from '../src/scan/json-body.ts'
import { LmdbEngine } from '../src/storage/lmdb/lmdb-engine.ts'
import { RankTree } from '../src/storage/rank-tree/rank-tree.ts'
import type { Changes, CommitOutcome, SharedSnapshot, Store } from '../src/storage/store.ts'
import { bulkBody } from './sample-documents.ts'

const DOCUMENTS = 1000
const DOCUMENT_BYTES = 300
const REQUESTS = 200
/** Until V8 has compiled what is used. */
const WARM_UP_REQUESTS = 100
const CONNECTIONS = [1, 4, 16]
/** Rows of a new document. */
const ROWS = 3

/** A store that measures its commits. */
class TracedStore implements Store {
  readonly #store: Store
  readonly #metrics: WriteMetrics
  commits = 0
  idleMs = 0
  writtenMs = 0
  savedMs = 0
  #plannedFromMs = 0

  constructor(store: Store, metrics: WriteMetrics) {
    this.#store = store
    this.#metrics = metrics
  }

  get name(): string {
    return this.#store.name
  }

  get dropped(): boolean {
    return this.#store.dropped
  }

  get keepsValues(): boolean {
    return this.#store.keepsValues
  }

  get givesCopies(): boolean {
    return this.#store.givesCopies
  }

  /** A commit is planned from here on. */
  snapshot(): SharedSnapshot {
    this.#plannedFromMs = performance.now()
    return this.#store.snapshot()
  }

  async commit(changes: Changes): Promise<CommitOutcome> {
    const beganMs = performance.now()
    const plannedMs = beganMs - this.#plannedFromMs
    const requests = (changes.packed?.length ?? 0) / ROWS / DOCUMENTS
    const before = performance.eventLoopUtilization()
    const outcome = await this.#store.commit(changes)
    const { idle } = performance.eventLoopUtilization(before)
    const waiting = this.#metrics.waiting - requests
    this.commits++
    this.writtenMs += performance.now() - beganMs
    this.idleMs += idle
    this.savedMs += Math.min(idle, (plannedMs * waiting) / requests)
    return outcome
  }

  replace(portions: Parameters<Store['replace']>[0]): Promise<void> {
    return this.#store.replace(portions)
  }

  compact(): Promise<void> {
    return this.#store.compact()
  }

  sizes(): ReturnType<Store['sizes']> {
    return this.#store.sizes()
  }

  isEmpty(): Promise<boolean> {
    return this.#store.isEmpty()
  }
}

const folder = await mkdtemp(join(process.argv[2] ?? tmpdir(), 'settle-bench-'))
const engine = await LmdbEngine.open({ folder })
try {
  await measure('warm-up', 4, WARM_UP_REQUESTS)
  for (const connections of CONNECTIONS) {
    const { store, elapsedMs } = await measure(`with ${connections}`, connections, REQUESTS)
    const share = (ms: number) => `${((100 * ms) / elapsedMs).toFixed(1)} %`
    console.log(
      `${connections} at a time: ${store.commits} commits, written and flushed in ${share(store.writtenMs)} of the time; ` +
        `idle meanwhile for ${share(store.idleMs)}; the next commit planned meanwhile would save ${share(store.savedMs)}`,
    )
  }
} finally {
  await engine.close()
  await rm(folder, { recursive: true, force: true })
}

async function measure(name: string, connections: number, requests: number) {
  const metrics = new WriteMetrics()
  const store = new TracedStore(await engine.create(name), metrics)
  const ranks = new RankTree({ rowPrefix: Buffer.from('d'), nodePrefix: Buffer.from('r'), salt: randomBytes(8) })
  const queue = new WriteQueue(store, ranks, { onCommitted: () => {}, metrics })
  const bodies = Array.from({ length: requests }, (_, i) =>
    Buffer.from(bulkBody(i * DOCUMENTS, DOCUMENTS, DOCUMENT_BYTES)),
  )
  const beganMs = performance.now()
  await Promise.all(Array.from({ length: connections }, () => sendAll(queue, bodies)))
  return { store, elapsedMs: performance.now() - beganMs }
}

/** One connection: a request, its reply, and the next one. */
async function sendAll(queue: WriteQueue, bodies: Buffer[]): Promise<void> {
  for (let body = bodies.pop(); body; body = bodies.pop()) {
    const request = await bulkRequestIn(body, DOCUMENTS)
    const outcomes = await queue.write(request.documents.map(editOf))
    await joinedText(outcomes, (outcome, i) => JSON.stringify({ ...outcome, id: request.documents[i]?.id }))
    request.free()
    // The way to the client and back.
    await new Promise(setImmediate)
  }
}

function editOf({ id, body, term }: SentDocument): NewRevisionEdit {
  if (id === undefined) throw new Error('A document has no id.')
  return { kind: 'interactive', id, parent: undefined, deleted: false, body, term }
}
