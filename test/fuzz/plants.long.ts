/** Planted bugs that take longer to be found than those of `fuzz.test.ts`. */
import { describe, expect, it } from 'vitest'
import { fuzz } from './fuzzer.ts'
import { findsPlanted, HANG_MS, SEED } from './planted-bugs.ts'

describe('a fuzzer', () => {
  findsPlanted([
    ['wrong status', /An error that nothing names: 500 {"error":"conflict"/],
    ['crash', /The server has ended \(\d+\): .*Planted/s],
    ['hang', /left open|no reply/],
  ])

  it('finds a planted leak', { timeout: HANG_MS }, async () => {
    const { grownBytes } = await fuzz({ requests: 300, plant: 'leak', seed: SEED, findingsLimit: 1 })
    expect(grownBytes).toBeGreaterThan(32 * 1024 * 1024)
  })
})
