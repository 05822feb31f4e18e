import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Histogram } from '../../src/runtime/instruments.ts'

function histogramOf(values: readonly number[]): Histogram {
  const histogram = new Histogram()
  for (const value of values) histogram.add(value)
  return histogram
}

describe('a histogram', () => {
  it('has all its members from the start', () => {
    expect(new Histogram().summary()).toEqual({
      n: 0,
      min: 0,
      max: 0,
      arithmetic_mean: 0,
      geometric_mean: 0,
      harmonic_mean: 0,
      median: 0,
      variance: 0,
      standard_deviation: 0,
      skewness: 0,
      kurtosis: 0,
      percentile: [
        [50, 0],
        [75, 0],
        [90, 0],
        [95, 0],
        [99, 0],
        [999, 0],
      ],
      histogram: [],
    })
  })

  it('computes means and moments', () => {
    expect(histogramOf([1, 2, 4, 8, 16]).summary()).toMatchObject({
      n: 5,
      min: 1,
      max: 16,
      arithmetic_mean: 6.2,
      geometric_mean: 4,
      harmonic_mean: 2.581,
      variance: 37.2,
      standard_deviation: 6.099,
      skewness: 0.889,
      kurtosis: -0.674,
    })
  })

  it('computes quantiles to within a fifth, and counts each value once', () => {
    const durations = fc.array(fc.double({ min: 0.01, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 200 })
    fc.assert(
      fc.property(durations, (values) => {
        const histogram = histogramOf(values)
        const { percentile, histogram: buckets, min, max } = histogram.summary()
        const sorted = values.toSorted((a, b) => a - b)
        for (const [name, told] of percentile) {
          const share = name === 999 ? 0.999 : name / 100
          const exact = sorted[Math.ceil(share * sorted.length) - 1] ?? 0
          // Numbers are told to three digits behind the point.
          expect(told).toBeLessThanOrEqual(exact * 1.2 + 0.001)
          expect(told).toBeGreaterThanOrEqual(exact / 1.2 - 0.001)
        }
        expect(buckets.reduce((sum, [, count]) => sum + count, 0)).toBe(values.length)
        expect(min).toBeCloseTo(sorted[0] ?? 0, 2)
        expect(max).toBeCloseTo(sorted.at(-1) ?? 0, 2)
        // What lies on a bound, but for the error of a logarithm, may be on either side of it.
        const upTo = (bound: number) => values.filter((each) => each <= bound).length
        for (const [bound, count] of histogram.cumulative(1)) {
          expect(count).toBeGreaterThanOrEqual(upTo(bound * (1 - 1e-9)))
          expect(count).toBeLessThanOrEqual(upTo(bound * (1 + 1e-9)))
        }
      }),
    )
  })
})
