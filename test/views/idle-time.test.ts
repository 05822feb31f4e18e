import { describe, expect, it } from 'vitest'
import { idleTimeLeft } from '../../src/views/processes/idle-time.ts'

const READY_MS = 600_000
const ONLY = { isOnly: true, privateMb: 70 }

describe('an index process without work', () => {
  it('is kept for a minute, whatever it holds', () => {
    expect(idleTimeLeft({ idleMs: 0, isOnly: false, privateMb: 300 }, READY_MS)).toBe(60_000)
    expect(idleTimeLeft({ idleMs: 60_000, isOnly: false, privateMb: 70 }, READY_MS)).toBe(0)
  })

  it('is kept ready where it is the only one, until the timeout', () => {
    let idleMs = 0
    for (let left = idleTimeLeft({ idleMs, ...ONLY }, READY_MS); left > 0; ) {
      idleMs += left
      left = idleTimeLeft({ idleMs, ...ONLY }, READY_MS)
    }
    expect(idleMs).toBe(READY_MS)
  })

  it('is not kept ready while there is another one, or when it holds much memory', () => {
    expect(idleTimeLeft({ idleMs: 60_000, ...ONLY }, READY_MS)).toBeGreaterThan(0)
    expect(idleTimeLeft({ idleMs: 120_000, ...ONLY, isOnly: false }, READY_MS)).toBe(0)
    expect(idleTimeLeft({ idleMs: 60_000, ...ONLY, privateMb: 200 }, READY_MS)).toBe(0)
    expect(idleTimeLeft({ idleMs: 60_000, ...ONLY, privateMb: undefined }, READY_MS)).toBe(0)
  })

  it('ends earlier where the timeout is short', () => {
    expect(idleTimeLeft({ idleMs: 0, ...ONLY }, 1000)).toBe(1000)
    expect(idleTimeLeft({ idleMs: 1000, ...ONLY }, 1000)).toBe(0)
  })
})
