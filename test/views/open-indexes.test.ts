import { describe, expect, it } from 'vitest'
import { OpenIndexes } from '../../src/views/open-indexes.ts'
import { collectGarbage } from '../support/collect-garbage.ts'
import { until } from '../support/until.ts'

describe('the open indexes', () => {
  it('do not hold those that were dropped, though nobody asks for metrics', async () => {
    const open = new OpenIndexes()
    const kept = Array.from({ length: 10 }, (_, lag) => ({ lag, place: { store: { dropped: false } } }))
    for (const each of kept) open.add(each)
    for (let i = 0; i < 50; i++) open.add({ lag: 1, place: { store: { dropped: true } } })
    await until(async () => {
      await collectGarbage()
      return open.size === kept.length
    })
    expect(open.lags()).toEqual(kept.map(({ lag }) => lag))
  })

  it('are those that were not dropped', () => {
    const open = new OpenIndexes()
    const store = { dropped: false }
    const index = { lag: 3, place: { store } }
    open.add(index)
    expect(open.lags()).toEqual([3])
    store.dropped = true
    expect(open.lags()).toEqual([])
    expect(index.lag).toBe(3)
  })
})
