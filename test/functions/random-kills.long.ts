import { expect, it } from 'vitest'
import { killedAtRandom } from './random-kills.ts'
import { functionsOfTest } from './test-functions.ts'

it('a thousand kills lose no call', async () => {
  const functions = functionsOfTest({ processLimit: 3, timeoutMs: 60_000 })
  const report = await killedAtRandom(functions, { kills: 1000 })
  console.log(report)
  expect(report).toMatchObject({ kills: 1000, wrong: 0, failed: 0 })
})
