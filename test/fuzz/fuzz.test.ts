/** Random requests to every resource: none of them harms the server. And planted bugs are found; more of them in `plants.long.ts`. */
import { describe, it } from 'vitest'
import { expectNothingFound } from './expect-nothing-found.ts'
import { fuzz } from './fuzzer.ts'
import { findsPlanted, HANG_MS, SEED } from './planted-bugs.ts'

describe('5,000 random requests', () => {
  const title = 'get replies with a cause, leave nothing behind, and change nothing where they are refused'
  it(title, { timeout: HANG_MS }, async () => {
    const seed = Number(process.env.SETTLE_SEED ?? SEED)
    expectNothingFound(await fuzz({ requests: 5_000, seed, digestEverythingEvery: 20 }))
  })
})

describe('a fuzzer', () => {
  findsPlanted([['half a write', /A refused request changed the database/]])
})
