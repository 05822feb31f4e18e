import { once } from 'node:events'
import { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { BorrowedSlots, ServerSlots } from '../../src/http/listeners/connection-slots.ts'
import { type Admission, OpenConnections } from '../../src/http/listeners/listener.ts'

/** Nodes that borrow from one server. */
function nodes(server: ServerSlots, limit: () => number, count: number): BorrowedSlots[] {
  return Array.from({ length: count }, (): BorrowedSlots => {
    const key = {}
    return new BorrowedSlots({
      borrow: async (wanted, held) => server.lend(key, { wanted, held }, limit()),
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

  it('move with their connections from a node to the server, and none is lost or made', async () => {
    for (const limit of [5, 640]) {
      const server = new ServerSlots()
      const [node] = nodes(server, () => limit, 1)
      for (let round = 0; round < 4; round++) {
        for (let i = 0; i < 5; i++) expect(await node!.take(limit)).toBe(true)
        for (let i = 0; i < 3; i++) {
          node!.passOn()
          server.takeOver()
        }
        expect([node!.used, server.used]).toEqual([2, 3])
        // They are closed at the node, in whatever order.
        for (let i = 0; i < 5; i++) node!.free()
        let own = 0
        while (server.take(limit)) own++
        expect(own).toBe(limit - 3 - node!.held)
        for (let i = 0; i < own + 3; i++) server.free()
        expect([node!.used, server.used]).toEqual([0, 0])
      }
    }
  })

  it('are kept at hand where there are many, and go back when they are not used', async () => {
    const limit = 640
    const server = new ServerSlots()
    let asked = 0
    const key = {}
    const node = new BorrowedSlots({
      borrow: async (wanted, held) => {
        asked++
        return server.lend(key, { wanted, held }, limit)
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
    expect(server.lend(key, { wanted: 5, held: 0 }, 5)).toBe(5)
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
    next.know({}, node.held)
    expect(next.take(3)).toBe(false)
  })

  it('are not lost where the other node answers late', async () => {
    const limit = 128
    const server = new ServerSlots()
    const key = {}
    let answer = Promise.withResolvers<void>()
    const lender = {
      borrow: async (wanted: number, held: number) => {
        const granted = server.lend(key, { wanted, held }, limit)
        await answer.promise
        return granted
      },
      giveBack: (count: number) => server.takeBack(key, count),
    }
    const node = new BorrowedSlots(lender, 1)
    for (let round = 0; round < 40; round++) {
      answer = Promise.withResolvers()
      const taken = [await node.take(limit), await node.take(limit), await node.take(limit)]
      expect(taken).toEqual([true, true, true])
      answer.resolve()
      await new Promise((resolve) => setImmediate(resolve))
      for (const _ of taken) node.free()
    }
    // What was had without an answer is counted the next time that the node asks.
    while (await node.take(limit));
    expect(server.take(limit)).toBe(false)
    expect(node.used).toBe(limit)
    while (node.used > 0) node.free()
    let own = 0
    while (server.take(limit)) own++
    expect(own).toBe(limit - node.held)
    expect(node.held).toBeLessThan(4)
  })

  it('are counted once where a node asks for some before it says how many it has', () => {
    const server = new ServerSlots()
    const key = {}
    server.takeBack(key, 1)
    expect(server.lend(key, { wanted: 2, held: 3 }, 6)).toBe(2)
    server.know(key, 3)
    expect(server.take(6)).toBe(true)
    expect(server.take(6)).toBe(false)
  })
})

describe('connections that are closed before they have a slot', () => {
  async function closedSocket(): Promise<Socket> {
    const socket = new Socket()
    socket.destroy()
    await once(socket, 'close')
    return socket
  }

  /** Admits connections that were closed while they waited for a slot. */
  async function admitted(
    hasSlot: boolean,
    count: number,
  ): Promise<{ open: OpenConnections; admissions: Admission[] }> {
    let used = 0
    const open = new OpenConnections({
      isShared: false,
      get used() {
        return used
      },
      take: async () => {
        if (hasSlot) used++
        return hasSlot
      },
      free: () => used--,
    })
    const admissions: Admission[] = []
    for (let i = 0; i < count; i++) admissions.push(await open.admit(await closedSocket(), 1))
    return { open, admissions }
  }

  it('keep none, and are not served', async () => {
    const { open, admissions } = await admitted(true, 3)
    expect(open.count).toBe(0)
    expect(admissions).toEqual(['cut off', 'cut off', 'cut off'])
  })

  it('do not count among those that are refused', async () => {
    const { open } = await admitted(false, 200)
    expect(await open.admit(new Socket(), 1)).toBe('refused')
  })
})
