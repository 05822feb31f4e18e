import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BudgetExceededError, MemoryBudget, type MemoryLease } from '../../src/runtime/memory-budget.ts'

const MEGABYTE = 1024 * 1024
const LONG_MS = 60_000

function budgetOf(limitBytes: number, waitMs = LONG_MS): MemoryBudget {
  return new MemoryBudget({ current: { limitBytes, waitMs } })
}

/** Takes bytes that must be there at once. */
function taken(budget: MemoryBudget, bytes: number): MemoryLease {
  const lease = budget.lease()
  expect(lease.add(bytes)).toBe(undefined)
  return lease
}

describe('a memory budget', () => {
  it('makes requests wait that need more than is free', async () => {
    const budget = budgetOf(8 * MEGABYTE)
    const first = taken(budget, 5 * MEGABYTE)
    const second = budget.lease()
    const waiting = second.add(5 * MEGABYTE)
    expect(waiting).toBeInstanceOf(Promise)
    first.release()
    await waiting
    expect(budget.heldBytes).toBe(5 * MEGABYTE)
    second.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('has room for small ones when large ones wait', async () => {
    const budget = budgetOf(8 * MEGABYTE)
    taken(budget, 7 * MEGABYTE)
    const [large, small] = [budget.lease(), budget.lease()]
    const waiting = [large.add(MEGABYTE)]
    for (let i = 0; i < 16; i++) taken(budget, 64 * 1024)
    waiting.push(small.add(64 * 1024))
    expect(waiting).toEqual([expect.any(Promise), expect.any(Promise)])
    large.release()
    small.release()
    const outcomes = await Promise.allSettled(waiting)
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  })

  it('serves the oldest first', async () => {
    const budget = budgetOf(8 * MEGABYTE)
    const [old, young] = [budget.lease(), budget.lease()]
    const other = taken(budget, 7 * MEGABYTE)
    const order: string[] = []
    const waiting = [
      young.add(4 * MEGABYTE)?.then(() => order.push('young')),
      old.add(4 * MEGABYTE)?.then(() => order.push('old')),
    ]
    other.release()
    await waiting[1]
    expect(order).toEqual(['old'])
    old.release()
    await waiting[0]
    expect(order).toEqual(['old', 'young'])
  })

  it('refuses the youngest where all who hold something wait for more', async () => {
    const budget = budgetOf(8 * MEGABYTE)
    const leases = [taken(budget, 3 * MEGABYTE), taken(budget, 3 * MEGABYTE)]
    const [first, second] = leases.map((lease) => lease.add(3 * MEGABYTE))
    await expect(second).rejects.toThrow(BudgetExceededError)
    leases[1]?.release()
    await first
    expect(budget.heldBytes).toBe(6 * MEGABYTE)
  })

  it('refuses the youngest after a timeout, and so every waiter for which no memory is released', async () => {
    const budget = budgetOf(MEGABYTE, 20)
    taken(budget, MEGABYTE)
    const waiting = [budget.lease(), budget.lease()].map((lease) => lease.add(MEGABYTE))
    const outcomes = await Promise.allSettled(waiting)
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  })

  it('cuts off those that hold memory for clients that send nothing, as many as it takes', async () => {
    const budget = budgetOf(8 * MEGABYTE, 4000)
    const cutOff: string[] = []
    const held = ['a', 'b', 'c'].map((name, i) => {
      const lease = budget.lease({
        receivedBytes: 0,
        isAwaited: name !== 'a',
        cutOff: () => {
          cutOff.push(name)
          held[i]?.release()
        },
      })
      expect(lease.add(2 * MEGABYTE)).toBe(undefined)
      return lease
    })
    const next = budget.lease()
    await next.add(2 * MEGABYTE)
    expect(cutOff).toEqual(['b'])
    expect(budget.heldBytes).toBe(6 * MEGABYTE)
  })

  it('cuts off nobody whose bytes it could not receive, since the process stood still', async () => {
    const budget = budgetOf(8 * MEGABYTE, 4000)
    let cutOffs = 0
    const held = budget.lease({ receivedBytes: 0, isAwaited: true, cutOff: () => cutOffs++ })
    expect(held.add(6 * MEGABYTE)).toBe(undefined)
    const waiting = budget.lease().add(4 * MEGABYTE)
    // Longer than it takes to find those that are slow, and less than a request waits.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500)
    await new Promise((resolve) => setTimeout(resolve))
    expect(cutOffs).toBe(0)
    held.release()
    await waiting
  })

  it('gives out what a lease does not need any more', async () => {
    const budget = budgetOf(8 * MEGABYTE)
    const lease = taken(budget, 6 * MEGABYTE)
    const next = budget.lease()
    const waiting = next.add(4 * MEGABYTE)
    lease.reduce(3 * MEGABYTE)
    await waiting
    expect(budget.heldBytes).toBe(7 * MEGABYTE)
    lease.release()
    next.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('lets one alone have more than the limit', () => {
    const budget = budgetOf(MEGABYTE)
    const lease = taken(budget, 3 * MEGABYTE)
    expect(lease.add(3 * MEGABYTE)).toBe(undefined)
  })

  it('ends with nothing held and no waiters, whatever happens', async () => {
    const steps = fc.array(fc.tuple(fc.nat(5), fc.integer({ min: 1, max: 4 * MEGABYTE })), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 1, maxLength: 8 }), async (requests) => {
        const budget = budgetOf(8 * MEGABYTE, 50)
        await Promise.all(
          requests.map(async (wanted) => {
            const lease = budget.lease()
            try {
              for (const [turns, bytes] of wanted) {
                await lease.add(bytes)
                // One alone may have more; all together may not.
                expect(budget.heldBytes <= 8 * MEGABYTE || budget.heldBytes === lease.bytes).toBe(true)
                for (let turn = 0; turn < turns; turn++) await Promise.resolve()
              }
            } catch (error) {
              expect(error).toBeInstanceOf(BudgetExceededError)
            } finally {
              lease.release()
            }
          }),
        )
        expect(budget.heldBytes).toBe(0)
      }),
      { numRuns: 100 },
    )
  })
})
