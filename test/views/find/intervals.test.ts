/** What a condition says about a column, as stretches of sort keys: never narrower than the condition. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collationKey } from '../../../src/encoding/collation/collation-key.ts'
import { parseSelector } from '../../../src/selectors/parse-selector.ts'
import { columnIntervals } from '../../../src/views/find/ranges/column-intervals.ts'
import { idIntervals } from '../../../src/views/find/ranges/id-intervals.ts'
import { indexRanges } from '../../../src/views/find/ranges/index-ranges.ts'
import { type Intervals, intervalsOf } from '../../../src/views/find/ranges/intervals.ts'
import { type Json, naiveMatch } from '../../support/naive-selector.ts'
import { smallSelector, smallValue } from '../../support/random-selectors.ts'

function holds(intervals: Intervals, value: Json): { readonly isExact: boolean } | undefined {
  const key = collationKey(value)
  return intervals.find(({ from, to }) => Buffer.compare(from, key) <= 0 && Buffer.compare(key, to) < 0)
}

describe('the intervals of a condition', () => {
  it('hold every value that passes, and only such where they are exact', () => {
    fc.assert(
      fc.property(smallSelector, smallValue, (selector, value) => {
        const intervals = intervalsOf(parseSelector(selector), 'a', columnIntervals)
        const interval = holds(intervals, value)
        const names = JSON.stringify(selector).match(/"(a|b|c|d|_id)[".]/g) ?? []
        const isOfColumn = names.every((name) => name === '"a"')
        const isMatch = naiveMatch(selector, { _id: 'x', a: value })
        if (isMatch) expect(interval).toBeDefined()
        if (interval?.isExact && isOfColumn) expect(isMatch).toBe(true)
      }),
      { numRuns: 5000 },
    )
  })

  it('lie in their order, without overlaps', () => {
    fc.assert(
      fc.property(smallSelector, (selector) => {
        const ranges = indexRanges(parseSelector(selector), ['a', 'b'], undefined)
        for (const [i, { from, to }] of ranges.entries()) {
          expect(Buffer.compare(from, to)).toBeLessThan(0)
          if (i > 0) expect(Buffer.compare(ranges[i - 1]!.to, from)).toBeLessThanOrEqual(0)
        }
      }),
      { numRuns: 3000 },
    )
  })

  it('hold every text that begins with a prefix, whatever follows', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 4 }), fc.string({ unit: 'binary', maxLength: 4 }), (prefix, rest) => {
        const text = (prefix + rest).toWellFormed()
        const intervals = columnIntervals({ operator: '$beginsWith', argument: prefix })
        expect(holds(intervals, text)).toBeDefined()
      }),
      { numRuns: 10_000 },
    )
  })

  it('are few, however many values are listed', () => {
    const values = Array.from({ length: 5000 }, (_, i) => i)
    const selector = { a: { $in: values }, b: { $in: values } }
    expect(indexRanges(parseSelector(selector), ['a', 'b'], undefined).length).toBeLessThanOrEqual(1000)
  })

  it('are those of types where a list is very long, and hold all of its values', () => {
    const values = Array.from({ length: 20_000 }, (_, i) => (i % 2 === 0 ? i : `text ${i}`))
    const intervals = columnIntervals({ operator: '$in', argument: values })
    expect(intervals.length).toBeLessThanOrEqual(3)
    for (const value of values.slice(0, 200)) expect(holds(intervals, value)).toMatchObject({ isExact: false })
    expect(holds(intervals, null)).toBeUndefined()
    expect(holds(intervals, {})).toBeUndefined()
  })

  it('of listed ids are in the order of their bytes, and hold these ids and no others', () => {
    const unit = fc.constantFrom('a', 'b', '\u0000', 'ä', '\ud7ff', '\ue000', '\uffff', '\u{10000}')
    const id = fc.string({ unit, maxLength: 3 })
    fc.assert(
      fc.property(fc.array(id, { maxLength: 12 }), id, (listed, other) => {
        const intervals = idIntervals({ operator: '$in', argument: listed })
        expect(intervals.map(({ low }) => low)).toEqual(
          [...new Set(listed)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
        )
        const bytes = Buffer.from(other)
        const isHeld = intervals.some(
          ({ from, to }) => Buffer.compare(from, bytes) <= 0 && Buffer.compare(bytes, to) < 0,
        )
        expect(isHeld).toBe(listed.includes(other))
      }),
      { numRuns: 1000 },
    )
  })
})
