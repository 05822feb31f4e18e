/** Random edits on three servers and random replications between them: in the end all hold the same. */
import { expect } from 'vitest'
import { Random } from '../../crash/random.ts'
import { expectSame } from '../whole-database.ts'
import { RandomEdits } from './random-edits.ts'

export interface ThreeServersRun {
  /** The addresses of the servers. */
  readonly urls: readonly string[]
  readonly name: string
  readonly steps: number
  readonly seed: number
}

export async function runThreeServers({ urls, name, steps, seed }: ThreeServersRun): Promise<void> {
  const random = new Random(seed)
  const hint = `SETTLE_SEED=${seed}`
  for (const url of urls) expect((await fetch(url + name, { method: 'PUT' })).status, hint).toBe(201)
  // Few documents, so that the same ones are edited everywhere.
  const edits = new RandomEdits(random, { edits: 4, documents: 14, largestBytes: 100_000 })
  const any = () => random.below(urls.length)
  for (let step = 0; step < steps; step++) {
    if (random.chance(0.6)) await edits.run(`${urls[any()]}${name}`)
    else await replicate({ by: any(), from: any(), to: any() })
  }
  // Around the circle twice: what the last one has, the first one gets.
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < urls.length; at++) await replicate({ by: any(), from: at, to: (at + 1) % urls.length })
  }
  for (const url of urls.slice(1)) await expectSame(`${urls[0]}${name}`, url + name, hint)

  /** One of the servers does it: it may push, pull, or stand between the two others. */
  async function replicate({ by, from, to }: { by: number; from: number; to: number }): Promise<void> {
    if (from === to) return
    const addressOf = (at: number) => (at === by && random.chance(0.7) ? name : `${urls[at]}${name}`)
    const body = JSON.stringify({ source: addressOf(from), target: addressOf(to), worker_batch_size: 5 })
    const headers = { 'Content-Type': 'application/json' }
    const reply = await fetch(`${urls[by]}_replicate`, { method: 'POST', headers, body })
    const text = await reply.text()
    expect(reply.status, `${hint} ${text}`).toBe(200)
    for (const { doc_write_failures } of JSON.parse(text).history ?? []) expect(doc_write_failures, hint).toBe(0)
  }
}
