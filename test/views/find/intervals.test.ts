/** What a condition says about a column, as stretches of sort keys: never narrower than the condition. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collationKey } from '../../../src/encoding/collation/collation-key.ts'
import { parseSelector } from '../../../src/selectors/parse-selector.ts'
import { columnIntervals } from '../../../src/views/find/ranges/column-intervals.ts'
import type { RangeList } from '../../../src/views/find/ranges/find-range.ts'
import { idIntervals } from '../../../src/views/find/ranges/id-intervals.ts'
import { idRanges, indexRanges } from '../../../src/views/find/ranges/index-ranges.ts'
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

  it('of a long list of ids are those of a short one, in every form of the selector', async () => {
    const unit = fc.constantFrom('a', 'b', 'ä', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\ud800')
    const id = fc.string({ unit, maxLength: 3 })
    const bound = fc.constantFrom({}, { $gt: 'a' }, { $gte: 'b', $lt: 'ä' }, { $ne: 'b' }, { $in: ['b', 'aa', 'ä'] })
    await fc.assert(
      fc.asyncProperty(fc.array(id, { minLength: 1, maxLength: 12 }), bound, async (listed, further) => {
        const short = await idRanges(parseSelector({ $and: [{ _id: { $in: listed } }, { _id: further }] }), undefined)
        const long = Array.from({ length: 1100 }, (_, i) => listed[(i * 7) % listed.length]!)
        const ids = [...long, ...listed]
        const selectors = [
          { $and: [{ _id: { $in: ids } }, { _id: further }] },
          {
            $and: [{ _id: further }, { $or: [{ _id: { $in: ids.slice(0, 500) } }, { _id: { $in: ids.slice(500) } }] }],
          },
        ]
        for (const selector of selectors) {
          const ranges = await idRanges(parseSelector(selector), undefined)
          expect(boundsOf(ranges)).toEqual(boundsOf(short))
          expect(ranges.areExact).toBe(short.areExact)
        }
      }),
      { numRuns: 100 },
    )
  })

  it('of ids are everything where lists in other conditions are very long', async () => {
    const ids = Array.from({ length: 20_000 }, (_, i) => `id ${i}`)
    const ranges = await idRanges(parseSelector({ $or: [{ _id: { $in: ids } }, { a: 1 }] }), undefined)
    expect(ranges).toMatchObject({ length: 2, areExact: false })
  })
})

function boundsOf(ranges: RangeList): string[] {
  return Array.from({ length: ranges.length }, (_, i) => {
    const { from, to } = ranges.at(i)
    return `${from.toString('hex')}-${to.toString('hex')}`
  })
}
