/** Random requests to every resource: none of them hurts the server. And planted bugs are found; more of them in `plants.long.ts`. */
import { describe, expect, it } from 'vitest'
import { expectNothingFound } from './expect-nothing-found.ts'
import { type FuzzReport, fuzz } from './fuzzer.ts'

const SEED = 20_261_116

describe('5,000 random requests', () => {
  it('get replies with a cause, leave nothing behind, and change nothing where they are refused', async () => {
    expectNothingFound(await fuzz({ requests: 5_000, seed: Number(process.env.SETTLE_SEED ?? SEED) }))
  }, 300_000)
})

describe('a fuzzer', () => {
  const found = ({ findings }: FuzzReport) => findings.map(({ what }) => what).join('\n')

  it.each([
    ['wrong status', /An error that nothing names: 500 {"error":"conflict"/],
    ['half a write', /A refused request changed the database/],
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
          }),
        ),
      ).toMatch(what)
    },
    300_000,
  )
})
