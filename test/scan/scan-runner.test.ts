import { Worker, type WorkerOptions } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { RequestError } from '../../src/document/request-error.ts'
import { MemoryBudget } from '../../src/runtime/memory-budget.ts'
import type { MatchScan, Scan } from '../../src/scan/scan-message.ts'
import { type ScanOptions, ScanRunner } from '../../src/scan/scan-runner.ts'
import { parseSelector } from '../../src/selectors/parse-selector.ts'

const MEGABYTE = 1024 * 1024
const DOCUMENT: Exclude<Scan, MatchScan> = { kind: 'document', id: undefined, largestDocument: undefined }

/** What the text of a document came to: the length of its body, or the kind of its refusal. */
async function outcomeOf(runner: ScanRunner, text: string, scan = DOCUMENT): Promise<number | string> {
  try {
    for await (const result of runner.scan(scan, Buffer.from(text))) {
      if (result.kind !== 'documents') continue
      const [, start = 0, end = 0] = result.batch.documents[0]?.body ?? []
      return end - start
    }
    return 0
  } catch (error) {
    if (error instanceof RequestError) return error.kind
    throw error
  }
}

/** Whose members take a heap of objects, since one of them comes twice. */
function manyMembers(count: number): string {
  return `{"a":1,"a":1,${Array.from({ length: count }, (_, i) => `"member ${i}":${i}`).join()}}`
}

function runnerOf(options: ScanOptions): ScanRunner {
  return new ScanRunner({ threads: 2, ...options })
}

describe('the scan of a large body', () => {
  it('that fills the heap of its thread does not affect others', async () => {
    const runner = runnerOf({ heapLimitMb: 24 })
    const innocent = `{"a":"${'x'.repeat(MEGABYTE)}"}`
    const texts = [innocent, manyMembers(600_000), innocent, innocent, innocent]
    const outcomes = await Promise.all(texts.map((text) => outcomeOf(runner, text)))
    expect(outcomes).toEqual([innocent.length, 'too large', innocent.length, innocent.length, innocent.length])
    expect(await outcomeOf(runner, innocent)).toBe(innocent.length)
  })

  it('that takes too long is refused, and the next one has another thread', async () => {
    const runner = runnerOf({ limitMs: 0, limitMsAMegabyte: 0 })
    expect(await outcomeOf(runner, manyMembers(100_000))).toBe('too large')
    expect(await outcomeOf(runner, manyMembers(100_000))).toBe('too large')
  })

  it('is refused when its body is too long, but not for its attachments or for white space', async () => {
    const runner = runnerOf({})
    const scan = { ...DOCUMENT, largestDocument: MEGABYTE }
    const long = 'x'.repeat(4 * MEGABYTE)
    expect(await outcomeOf(runner, `{"a":"${long}"}`, scan)).toBe('too large')
    expect(await outcomeOf(runner, `{"a":"${'x'.repeat(MEGABYTE)}"}`, scan)).toBe('too large')
    expect(await outcomeOf(runner, `{"_attachments":{"f":{"data":"${'A'.repeat(4 * MEGABYTE)}"}},"a":1}`, scan)).toBe(7)
    expect(await outcomeOf(runner, `{"a":${' '.repeat(4 * MEGABYTE)}1}`, scan)).toBe(7)
  })

  it('takes memory while it runs, and keeps what its result needs', async () => {
    const budget = new MemoryBudget({ current: { limitBytes: 100 * MEGABYTE, waitMs: 1000 } })
    const text = Buffer.from(`{"a":"${'x'.repeat(MEGABYTE)}"}`)
    const bytes = text.length
    const lease = budget.lease()
    expect(lease.add(bytes)).toBe(undefined)
    for await (const result of runnerOf({}).scan(DOCUMENT, text, lease)) {
      expect([result.kind, budget.heldBytes]).toEqual(['documents', 4 * bytes])
      break
    }
    expect(budget.heldBytes).toBe(2 * bytes)
    lease.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('fails alone where the system starts no thread for it', async () => {
    let refusals = 3
    const startWorker = (options: WorkerOptions) => {
      if (refusals-- > 0) throw new Error('No thread.')
      return new Worker(new URL('../../src/scan/scan-thread.ts', import.meta.url), options)
    }
    const runner = runnerOf({ startWorker })
    for (let i = 0; i < 3; i++) await expect(outcomeOf(runner, '{"a":1}')).rejects.toThrow('No thread.')
    expect(await outcomeOf(runner, '{"a":1}')).toBe(7)
  })
})

describe('the match of a large document', () => {
  const NO_MEMBERS = new Map<string, Buffer>()
  const scanOf = (query: number, selector: object, fields?: readonly string[]): MatchScan => {
    return { kind: 'match', query, selection: { condition: parseSelector(selector), fields }, members: NO_MEMBERS }
  }

  it('is right for each of several queries that take turns in one thread', async () => {
    const runner = runnerOf({ threads: 2 })
    const [first, second] = [scanOf(1, { n: { $gt: 1 } }), scanOf(2, { n: 1 }, ['n'])]
    for (const n of [1, 2, 1]) {
      const text = Buffer.from(`{"n":${n},"filler":"x"}`)
      expect(await runner.match(first, text)).toMatchObject({ isMatch: n > 1 })
      expect(await runner.match(first, text)).toMatchObject({ isMatch: n > 1 })
      const { isMatch, projected } = await runner.match(second, text)
      expect([isMatch, projected && Buffer.from(projected).toString()]).toEqual(
        n === 1 ? [true, '{"n":1}'] : [false, undefined],
      )
      expect(text.toString()).toBe(`{"n":${n},"filler":"x"}`)
    }
  })

  it('is refused where the selector takes too long, and the next query has the thread', async () => {
    const runner = runnerOf({ threads: 2 })
    const text = Buffer.from(`{"a":"${'a'.repeat(MEGABYTE)}"}`)
    for (let i = 0; i < 3; i++) {
      await expect(runner.match(scanOf(1, { a: { $regex: '(?=a*b)a' } }), text)).rejects.toThrow('too long')
      expect(await runner.match(scanOf(2, { a: { $type: 'string' } }), text)).toMatchObject({ isMatch: true })
    }
  })

  it('is not begun for a client that is gone', async () => {
    const runner = runnerOf({ startWorker: () => expect.unreachable() })
    await expect(
      runner.match(scanOf(1, { n: 1 }), Buffer.from('{}'), AbortSignal.abort(new Error('gone'))),
    ).rejects.toThrow('gone')
  })
})
