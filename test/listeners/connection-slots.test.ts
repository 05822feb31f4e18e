import { describe, expect, it } from 'vitest'
import { BorrowedSlots, ServerSlots } from '../../src/http/listeners/connection-slots.ts'

/** Nodes that borrow from one server. */
function nodes(server: ServerSlots, limit: () => number, count: number): BorrowedSlots[] {
  return Array.from({ length: count }, (): BorrowedSlots => {
    const key = {}
    return new BorrowedSlots({
      borrow: async (wanted) => server.lend(key, wanted, limit()),
      giveBack: (given) => server.takeBack(key, given),
    })
  })
}

describe('slots for connections', () => {
  it('are never more than the limit, whichever nodes take them, and all can be used where they are few', async () => {
    const limit = 7
    const server = new ServerSlots()
    const all = [server, ...nodes(server, () => limit, 3)]
    for (let round = 0; round < 50; round++) {
      const taken = await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          const node = all[(i * (round + 1)) % all.length]!
          return (await node.take(limit)) ? node : undefined
        }),
      )
      const holders = taken.filter((node) => node !== undefined)
      expect(holders).toHaveLength(limit)
      expect(all.reduce((sum, { used }) => sum + used, 0)).toBe(limit)
      for (const node of holders) node.free()
      expect(all.every(({ used }) => used === 0)).toBe(true)
    }
  })

  it('are kept at hand where there are many, and go back when they are not used', async () => {
    const limit = 640
    const server = new ServerSlots()
    let asked = 0
    const key = {}
    const node = new BorrowedSlots({
      borrow: async (wanted) => {
        asked++
        return server.lend(key, wanted, limit)
      },
      giveBack: (count) => server.takeBack(key, count),
    })
    for (let i = 0; i < 100; i++) expect(await node.take(limit)).toBe(true)
    expect(asked).toBe(10)
    for (let i = 0; i < 100; i++) node.free()
    expect(node.held).toBeLessThan(20)
    let own = 0
    while (server.take(limit)) own++
    expect(own).toBe(limit - node.held)
  })

  it('are free again when the node that had them is gone', async () => {
    const server = new ServerSlots()
    const key = {}
    expect(server.lend(key, 5, 5)).toBe(5)
    expect(server.take(5)).toBe(false)
    server.forget(key)
    expect(server.take(5)).toBe(true)
  })

  it('are had without the other node, which counts them when it is back', async () => {
    const node = new BorrowedSlots({ borrow: async () => undefined, giveBack: () => {} })
    for (let i = 0; i < 3; i++) expect(await node.take(3)).toBe(true)
    expect(await node.take(3)).toBe(false)
    expect(node.held).toBe(3)
    const next = new ServerSlots()
    next.add({}, node.held)
    expect(next.take(3)).toBe(false)
  })
})
