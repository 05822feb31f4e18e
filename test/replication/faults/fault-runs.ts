/**
 * Replications through a network that fails at random, while documents are edited: at the end both sides must hold the
 * same, and every session must have begun where an earlier one had got to.
 */
import { expect } from 'vitest'
import { Random } from '../../crash/random.ts'
import { expectSame } from '../whole-database.ts'
import { FaultProxy } from './fault-proxy.ts'
import { RandomEdits } from './random-edits.ts'

export type Direction = 'push' | 'pull' | 'between others'

export interface FaultRun {
  /** The server that replicates. */
  readonly here: string
  readonly there: string
  readonly name: string
  readonly direction: Direction
  readonly chance: number
  readonly edits: number
  readonly seed: number
}

/** Quick to notice silence, and with several batches under way. */
export const OPTIONS = {
  connection_timeout: 1000,
  retries_per_request: 4,
  worker_batch_size: 10,
  checkpoint_interval: 100,
  http_connections: 6,
}

const MOST_ATTEMPTS = 40

interface Entry {
  readonly start_last_seq: number
  readonly recorded_seq: number
  readonly doc_write_failures: number
}

export async function runWithFaults({ here, there, name, direction, chance, edits, seed }: FaultRun): Promise<void> {
  const random = new Random(seed)
  const proxy = await FaultProxy.start(there, { random, chance })
  const second = direction === 'between others' ? await FaultProxy.start(here, { random, chance }) : undefined
  const hint = `${direction}, SETTLE_SEED=${seed}`
  try {
    const source = `${direction === 'pull' ? there : here}${name}-source`
    const target = `${direction === 'pull' ? here : there}${name}-target`
    for (const url of [source, target]) await put(url)
    const shape = { edits, documents: Math.max(12, Math.floor(edits / 3)) }
    const writing = new RandomEdits(random, shape)
    await writing.run(source, Math.floor(edits / 2))
    // What the target has of its own, or has already, must be left as it is.
    await new RandomEdits(random, { ...shape, edits: 10 }).run(target)
    const request = {
      source: addressOf(source, here, direction === 'pull' ? proxy.url : second?.url, there),
      target: addressOf(target, here, direction === 'pull' ? undefined : proxy.url, there),
      ...OPTIONS,
    }
    const [history] = await Promise.all([replicated(here, request, hint), writing.run(source, Math.ceil(edits / 2))])
    expectContinued(history, hint)
    expectContinued(await replicated(here, request, hint), hint)
    // The other way, so that both have what the target had of its own.
    proxy.calm()
    second?.calm()
    await replicated(here, { source: request.target, target: request.source, ...OPTIONS }, hint)
    await expectSame(source, target, hint)
  } finally {
    await proxy.close()
    await second?.close()
  }
}

/** A database as the replicating server is to reach it: by its name, or through a proxy. */
function addressOf(url: string, here: string, proxy: string | undefined, there: string): string {
  const name = url.slice(url.lastIndexOf('/') + 1)
  if (proxy !== undefined) return proxy + name
  return url.startsWith(there) && here !== there ? url : name
}

/** Repeats the replication until it succeeds, as a user would after a failure. */
async function replicated(here: string, request: object, hint: string): Promise<readonly Entry[]> {
  let text = ''
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const reply = await fetch(`${here}_replicate`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(request),
    })
    text = await reply.text()
    if (reply.status === 200) return JSON.parse(text).history
  }
  throw new Error(`It did not succeed in ${MOST_ATTEMPTS} attempts (${hint}): ${text}`)
}

/** Newest first. A session begins with what an earlier one had recorded, or from the start when no earlier one is known. */
function expectContinued(history: readonly Entry[], hint: string): void {
  for (const [i, { start_last_seq, doc_write_failures }] of history.entries()) {
    const recorded = history.slice(i + 1).map(({ recorded_seq }) => recorded_seq)
    expect(recorded.length === 0 ? [0] : recorded, hint).toContain(start_last_seq)
    expect(doc_write_failures, hint).toBe(0)
  }
}

async function put(url: string): Promise<void> {
  const reply = await fetch(url, { method: 'PUT' })
  expect(reply.status, await reply.text()).toBe(201)
}
