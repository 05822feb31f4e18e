/** Random requests to every resource: none of them hurts the server. And each kind of harm, planted, is found. */
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
    ['crash', /The server has ended \(\d+\): .*Planted/s],
    ['wrong status', /An error that nothing names: 500 {"error":"conflict"/],
    ['hang', /left open|no reply/],
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
