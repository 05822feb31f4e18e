import { describe, it } from 'vitest'
import { followWhileWriting } from './changes-model.ts'

describe('readers of changes that come and go while others write, for long', () => {
  it('miss nothing, get nothing twice, and end with the latest change of each document', async () => {
    await followWhileWriting({ numRuns: 60, writes: 150, readers: 20 })
  })

  it('do so in large numbers too', async () => {
    await followWhileWriting({ numRuns: 10, writes: 60, fewestReaders: 150, readers: 200, waitMs: 1000 })
  })
})
