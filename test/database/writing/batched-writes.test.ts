import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BatchedWrites } from '../../../src/database/writing/batched-writes.ts'
import type { DocumentEdit, EditOutcome } from '../../../src/database/writing/edit.ts'
import { parseRevision } from '../../../src/document/ids.ts'
import { conflict } from '../../../src/document/request-error.ts'
import { memoryDatabase, put } from '../test-database.ts'

/** Stands in for the writer: records its calls, and answers as configured. */
class NotedQueue {
  readonly asked: (readonly DocumentEdit[])[] = []
  answer: () => Promise<EditOutcome[]> = async () => [{ outcome: 'written', revision: parseRevision('1-a') }]

  write(edits: readonly DocumentEdit[]): Promise<EditOutcome[]> {
    this.asked.push(edits)
    return this.answer()
  }
}

function batched() {
  const queue = new NotedQueue()
  const warnings: { message: string; details: object | undefined }[] = []
  const log = {
    debug() {},
    info() {},
    warn: (message: string, details?: object) => warnings.push({ message, details }),
    error() {},
  }
  const writes = new BatchedWrites(log)
  const add = (edits: readonly DocumentEdit[]) => {
    for (const edit of edits)
      writes.add(
        edit,
        (some) => queue.write(some),
        () => {},
      )
  }
  return { queue, warnings, writes: { add, flush: () => writes.flush() } }
}

describe('writes that are accepted before they are done', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it('wait for others for a short time', () => {
    const { queue, writes } = batched()
    writes.add([put('a', {})])
    vi.advanceTimersByTime(300)
    writes.add([put('b', {})])
    expect(queue.asked).toHaveLength(0)
    // The first sets the time: those that follow do not put it off.
    vi.advanceTimersByTime(700)
    expect(queue.asked.flat().map(({ id }) => id)).toEqual(['a', 'b'])
  })

  it('are requests of their own: one document written twice is two writes', () => {
    const { queue, writes } = batched()
    writes.add([put('a', {}), put('a', { again: true })])
    vi.runAllTimers()
    expect(queue.asked.map((edits) => edits.length)).toEqual([1, 1])
  })

  it('wait no longer when there are many of them', () => {
    const { queue, writes } = batched()
    for (let i = 0; i < 499; i++) writes.add([put(`${i}`, {})])
    expect(queue.asked).toHaveLength(0)
    writes.add([put('the last', {})])
    expect(queue.asked).toHaveLength(500)
  })

  it('wait no longer when they are large', () => {
    const { queue, writes } = batched()
    for (let i = 0; i < 3; i++) writes.add([put(`${i}`, { text: 'x'.repeat(1_300_000) })])
    expect(queue.asked).toHaveLength(0)
    writes.add([put('the last', { text: 'x'.repeat(1_300_000) })])
    expect(queue.asked).toHaveLength(4)
  })

  it('are done when they are flushed, also those under way', async () => {
    const { queue, writes } = batched()
    const gate = Promise.withResolvers<EditOutcome[]>()
    queue.answer = () => gate.promise
    writes.add([put('a', {})])
    vi.runAllTimers()
    writes.add([put('b', {})])
    let isFlushed = false
    const flushing = writes.flush().then(() => {
      isFlushed = true
    })
    expect(queue.asked).toHaveLength(2)
    await new Promise((resolve) => setImmediate(resolve))
    expect(isFlushed).toBe(false)
    gate.resolve([{ outcome: 'written', revision: parseRevision('1-a') }])
    await flushing
  })

  it('are logged when they are refused or fail, and end nothing', async () => {
    const { queue, warnings, writes } = batched()
    queue.answer = async () => [{ outcome: 'refused', error: conflict() }]
    writes.add([put('refused', {})])
    await writes.flush()
    queue.answer = async () => Promise.reject(new Error('The disk is full.'))
    writes.add([put('failed', {})])
    await writes.flush()
    expect(warnings.map(({ details }) => details)).toMatchObject([
      { document: 'refused', reason: expect.stringContaining('conflict') },
      { document: 'failed', reason: expect.stringContaining('The disk is full.') },
    ])
  })
})

describe('a database with writes to be done later', () => {
  it('does them in one commit, before it closes', async () => {
    const { database, store } = await memoryDatabase()
    using before = store.snapshot()
    for (let i = 0; i < 20; i++) database.writeLater(put(`document ${i}`, {}))
    expect((await database.information()).documentCount).toBe(0)
    await database.close()
    expect((await database.information()).documentCount).toBe(20)
    using after = store.snapshot()
    expect((await after.version()) - (await before.version())).toBe(1)
  })
})
