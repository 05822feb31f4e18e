import { describe, expect, it } from 'vitest'
import type { ChangeBlock } from '../../../src/database/changes/changes.ts'
import { ChangesHub, type ReadingPlace } from '../../../src/database/changes/changes-hub.ts'
import { until } from '../../support/until.ts'

const BLOCK: ChangeBlock = { rows: 1, text: Buffer.from('1'), looked: 1, shown: 1, isEnd: true }
const X: ReadingPlace = { sharedAs: 'x', cursor: 0, left: 10 }
const Y: ReadingPlace = { sharedAs: 'y', cursor: 0, left: 10 }

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('the hub of changes', () => {
  it('notifies all subscribers, and none that unsubscribed', async () => {
    const hub = new ChangesHub()
    const heard: string[] = []
    const leave = hub.subscribe(() => heard.push('a'))
    hub.subscribe(() => heard.push('b'))
    hub.updated(1)
    leave()
    hub.updated(2)
    expect([heard, hub.updateSequence]).toEqual([['a', 'b', 'b'], 2])
  })

  it('yields to other work while it notifies many, and no subscriber misses the last update', async () => {
    const hub = new ChangesHub()
    const lastHeard = new Array<number>(1_000).fill(0)
    for (const i of lastHeard.keys()) hub.subscribe(() => (lastHeard[i] = hub.updateSequence))
    hub.updated(1)
    expect(lastHeard.filter((sequence) => sequence === 1).length).toBeLessThan(1_000)
    hub.updated(2)
    await until(() => lastHeard.every((sequence) => sequence === 2))
  })

  it('notifies many subscribers of many updates in few rounds', async () => {
    const hub = new ChangesHub()
    let told = 0
    let lastHeard = 0
    for (let i = 0; i < 999; i++) hub.subscribe(() => told++)
    hub.subscribe(() => (lastHeard = hub.updateSequence))
    for (let sequence = 1; sequence <= 100; sequence++) {
      hub.updated(sequence)
      await turn()
    }
    await until(() => lastHeard === 100)
    // Each update takes one turn, each round sixteen of them and a rest.
    expect(told).toBeLessThanOrEqual(10 * 999)
  })

  it('shares what was read in this round with subscribers at the same position that need more than that', async () => {
    const hub = new ChangesHub()
    const found: (ChangeBlock | undefined)[] = []
    hub.subscribe(() => hub.shared(X, async () => BLOCK))
    for (let i = 0; i < 64; i++) hub.subscribe(() => {})
    hub.subscribe(() => found.push(hub.atHand(X), hub.atHand(Y), hub.atHand({ ...X, cursor: 1 })))
    hub.subscribe(() => found.push(hub.atHand({ ...X, left: 2 }), hub.atHand({ ...X, left: 1 })))
    hub.updated(1)
    await until(() => found.length === 5)
    expect(found).toEqual([BLOCK, undefined, undefined, BLOCK, undefined])
    await until(() => hub.atHand(X) === undefined)
  })

  it('shares nothing that was not read to the end', async () => {
    const hub = new ChangesHub()
    let isFound: boolean | undefined
    hub.subscribe(() => hub.shared(X, async () => ({ ...BLOCK, isEnd: false })))
    for (let i = 0; i < 64; i++) hub.subscribe(() => {})
    hub.subscribe(() => (isFound = hub.atHand(X) !== undefined))
    hub.updated(1)
    await until(() => isFound !== undefined)
    expect(isFound).toBe(false)
  })

  it('reads once what several subscribers need at the same time', async () => {
    const hub = new ChangesHub()
    let readings = 0
    const read = async () => {
      readings++
      await turn()
      return BLOCK
    }
    const both = await Promise.all([hub.shared(X, read), hub.shared(X, read)])
    expect([both, readings]).toEqual([[BLOCK, BLOCK], 1])
    await Promise.all([hub.shared(X, read), hub.shared(Y, read)])
    expect(readings).toBe(3)
  })

  it('forgets a failed read', async () => {
    const hub = new ChangesHub()
    const fail = () => Promise.reject<ChangeBlock>(new Error('no'))
    await expect(hub.shared(X, fail)).rejects.toThrow('no')
    await expect(hub.shared(X, async () => ({ rows: 7 }) as ChangeBlock)).resolves.toMatchObject({ rows: 7 })
  })
})
