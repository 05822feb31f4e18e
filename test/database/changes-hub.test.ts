import { describe, expect, it } from 'vitest'
import type { ChangeBlock } from '../../src/database/changes.ts'
import { ChangesHub } from '../../src/database/changes-hub.ts'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('the hub of changes', () => {
  it('tells all listeners, and those no more that left', async () => {
    const hub = new ChangesHub()
    const heard: string[] = []
    const leave = hub.listen(() => heard.push('a'))
    hub.listen(() => heard.push('b'))
    hub.updated(1)
    leave()
    hub.updated(2)
    expect([heard, hub.updateSequence]).toEqual([['a', 'b', 'b'], 2])
  })

  it('lets others have their turn while it tells many, and nobody misses the last update', async () => {
    const hub = new ChangesHub()
    const lastHeard = new Array<number>(1_000).fill(0)
    for (const i of lastHeard.keys()) hub.listen(() => (lastHeard[i] = hub.updateSequence))
    hub.updated(1)
    expect(lastHeard.filter((sequence) => sequence === 1).length).toBeLessThan(1_000)
    hub.updated(2)
    for (let i = 0; i < 20; i++) await turn()
    expect(new Set(lastHeard)).toEqual(new Set([2]))
  })

  it('reads once what several want at the same time', async () => {
    const hub = new ChangesHub()
    let readings = 0
    const block: ChangeBlock = { rows: 0, text: Buffer.alloc(0), looked: 0, shown: undefined, isEnd: true }
    const read = async () => {
      readings++
      await turn()
      return block
    }
    const both = await Promise.all([hub.shared('x', read), hub.shared('x', read)])
    expect([both, readings]).toEqual([[block, block], 1])
    await Promise.all([hub.shared('x', read), hub.shared('y', read)])
    expect(readings).toBe(3)
  })

  it('forgets a reading that failed', async () => {
    const hub = new ChangesHub()
    const fail = () => Promise.reject<ChangeBlock>(new Error('no'))
    await expect(hub.shared('x', fail)).rejects.toThrow('no')
    await expect(hub.shared('x', async () => ({ rows: 7 }) as ChangeBlock)).resolves.toMatchObject({ rows: 7 })
  })
})
