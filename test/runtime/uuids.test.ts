import { describe, expect, it } from 'vitest'
import { SequentialUuids } from '../../src/runtime/uuids.ts'

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
