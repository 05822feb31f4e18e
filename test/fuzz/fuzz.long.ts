import { it } from 'vitest'
import { expectNothingFound } from './expect-nothing-found.ts'
import { fuzz } from './fuzzer.ts'

it('200,000 random requests get replies with a cause and leave nothing behind', async () => {
  expectNothingFound(await fuzz({ requests: 200_000 }))
})
