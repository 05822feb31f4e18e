/** Slots for work: never more than there are, handed on in turn, and released when no longer needed. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FairQueue, FairSemaphore } from '../../src/runtime/fair-semaphore.ts'

describe('a fair queue', () => {
  it('yields everything, of each owner in order, and no owner waits for two turns of another', () => {
    const owners = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 40 })
    fc.assert(
      fc.property(owners, (pushed) => {
        const queue = new FairQueue<{ owner: string; number: number }>()
        for (const [number, owner] of pushed.entries()) queue.push(owner, { owner, number })
        const given: { owner: string; number: number }[] = []
        for (let item = queue.shift(); item; item = queue.shift()) given.push(item)
        for (const owner of new Set(pushed)) {
          const numbers = given.filter((item) => item.owner === owner).map(({ number }) => number)
          expect(numbers).toEqual(numbers.toSorted((one, other) => one - other))
        }
        expect(given).toHaveLength(pushed.length)
        // As long as several wait, nobody is served twice in a row.
        for (let i = 1; i < given.length; i++) {
          const rest = new Set(given.slice(i - 1).map(({ owner }) => owner))
          if (rest.size > 1) expect(given[i]?.owner).not.toBe(given[i - 1]?.owner)
        }
      }),
    )
  })

  it('drops what is removed', () => {
    const queue = new FairQueue<string>()
    queue.push('a', 'one')
    queue.push('a', 'two')
    expect([queue.remove('a', 'one'), queue.remove('a', 'one'), queue.remove('b', 'two'), queue.size]).toEqual([
      true,
      false,
      false,
      1,
    ])
    expect([queue.shift(), queue.shift(), queue.size]).toEqual(['two', undefined, 0])
  })
})

describe('fair semaphore', () => {
  it('are taken up to the limit, and handed on', async () => {
    let limit = 1
    const semaphore = new FairSemaphore(() => limit)
    const served: string[] = []
    const take = (owner: string) => semaphore.acquire({ owner }).then(() => served.push(owner))
    await take('a')
    const waiting = [take('a'), take('a'), take('b')]
    await Promise.resolve()
    expect(served).toEqual(['a'])
    semaphore.release('a')
    await waiting[0]
    expect(served).toEqual(['a', 'a'])
    limit = 3
    semaphore.serve()
    await Promise.all(waiting)
    expect(served).toEqual(['a', 'a', 'b', 'a'])
  })

  it('are kept in part for owners that have none', async () => {
    const semaphore = new FairSemaphore(() => 8)
    const served: string[] = []
    const take = (owner: string) => semaphore.acquire({ owner }).then(() => served.push(owner))
    const waiting = Array.from({ length: 9 }, () => take('a'))
    await take('b')
    expect(served).toEqual([...Array(6).fill('a'), 'b'])
    expect(['a', 'b', 'c', 'd'].map((owner) => semaphore.tryAcquire(owner))).toEqual([false, false, true, false])
    for (const owner of ['a', 'b', 'c', 'a', 'a']) semaphore.release(owner)
    await Promise.all(waiting)
    expect(served.filter((owner) => owner === 'a')).toHaveLength(9)
    expect(['a', 'b', 'c', 'd'].map((owner) => semaphore.tryAcquire(owner))).toEqual([false, true, true, false])
  })

  it('are kept though many owners take what they can', async () => {
    const semaphore = new FairSemaphore(() => 25)
    for (let i = 0; i < 60; i++) semaphore.tryAcquire(`owner ${i % 10}`)
    for (let i = 0; i < 6; i++) expect(semaphore.tryAcquire(`newcomer ${i}`), String(i)).toBe(true)
    expect(semaphore.tryAcquire('late')).toBe(false)
  })

  it('can be aborted while waiting, and closing rejects all waiters', async () => {
    const semaphore = new FairSemaphore(() => 1)
    await semaphore.acquire({ owner: 'a' })
    const given = new AbortController()
    const first = semaphore.acquire({ owner: 'a', signal: given.signal })
    const second = semaphore.acquire({ owner: 'a' })
    given.abort(new Error('not needed'))
    await expect(first).rejects.toThrow('not needed')
    await expect(semaphore.acquire({ owner: 'a', signal: given.signal })).rejects.toThrow('not needed')
    semaphore.close(new Error('the end'))
    await expect(second).rejects.toThrow('the end')
    await expect(semaphore.acquire({ owner: 'a' })).rejects.toThrow('the end')
  })
})
