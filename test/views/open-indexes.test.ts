import { describe, expect, it } from 'vitest'
import { OpenIndexes } from '../../src/views/open-indexes.ts'

describe('the open indexes', () => {
  it('do not hold those that were dropped, though nobody asks for metrics', () => {
    const open = new OpenIndexes()
    const kept = Array.from({ length: 100 }, (_, lag) => ({ lag, place: { store: { dropped: false } } }))
    for (const each of kept) open.add(each)
    let most = 0
    for (let i = 0; i < 10_000; i++) {
      const store = { dropped: false }
      open.add({ lag: 1, place: { store } })
      store.dropped = true
      most = Math.max(most, open.size)
    }
    expect(most).toBeLessThan(400)
    expect(open.lags()).toEqual(kept.map(({ lag }) => lag))
  })
})
