/** Planted bugs that take longer to be found than those of `fuzz.test.ts`. */
import { describe, expect, it } from 'vitest'
import { type FuzzReport, fuzz } from './fuzzer.ts'

const SEED = 20_261_116

describe('a fuzzer', () => {
  const found = ({ findings }: FuzzReport) => findings.map(({ what }) => what).join('\n')

  it.each([
    ['crash', /The server has ended \(\d+\): .*Planted/s],
    ['hang', /left open|no reply/],
  ])(
    'finds a planted bug: %s',
    async (plant, what) => {
      expect(
        found(
          await fuzz({
            requests: 500,
            plant,
            seed: SEED,
            findingsLimit: 1,
            ...(plant === 'hang' && { hangMs: 3_000 }),
          }),
        ),
      ).toMatch(what)
    },
    300_000,
  )

  it('finds a planted leak', async () => {
    const { grownBytes } = await fuzz({ requests: 300, plant: 'leak', seed: SEED, findingsLimit: 1 })
    expect(grownBytes).toBeGreaterThan(32 * 1024 * 1024)
  }, 300_000)
})
