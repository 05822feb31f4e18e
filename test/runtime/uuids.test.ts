import { describe, expect, it } from 'vitest'
import { SequentialUuids, Uuids } from '../../src/runtime/uuids.ts'

describe('sequential uuids', () => {
  it('rise in small steps under one prefix until the counter is used up', () => {
    const uuids = new SequentialUuids()
    let last = uuids.next()
    let prefixes = 1
    for (let i = 0; i < 20_000; i++) {
      const next = uuids.next()
      expect(next).toMatch(/^[0-9a-f]{32}$/)
      if (next.slice(0, 26) === last.slice(0, 26)) {
        const step = Number.parseInt(next.slice(26), 16) - Number.parseInt(last.slice(26), 16)
        expect(step).toBeGreaterThanOrEqual(1)
        expect(step).toBeLessThanOrEqual(0xffd)
      } else {
        expect(Number.parseInt(last.slice(26), 16)).toBeGreaterThanOrEqual(0xfff000)
        prefixes++
      }
      last = next
    }
    expect(prefixes).toBeGreaterThan(1)
  })
})

describe('uuids', () => {
  const clock = { nowMs: () => 1_700_000_000_000, nowUs: () => 1_700_000_000_000_000 }

  it('are of the algorithm that is set, from the next one on', () => {
    const uuids = new Uuids(clock, { algorithm: 'random', utcSuffix: '' })
    expect(uuids.next()).toMatch(/^[0-9a-f]{32}$/)
    uuids.use({ algorithm: 'utc_random', utcSuffix: '' })
    expect(uuids.next()).toMatch(/^060a24181e4000[0-9a-f]{18}$/)
    uuids.use({ algorithm: 'utc_id', utcSuffix: '-x' })
    expect([uuids.next(), uuids.next()]).toEqual(['060a24181e4000-x', '060a24181e4001-x'])
    uuids.use({ algorithm: 'sequential', utcSuffix: '' })
    expect(uuids.next().slice(0, 26)).toBe(uuids.next().slice(0, 26))
  })
})
