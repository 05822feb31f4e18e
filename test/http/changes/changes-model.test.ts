import { describe, it } from 'vitest'
import { followWhileWriting } from './changes-model.ts'

describe('readers of changes that come and go while others write', () => {
  it('miss nothing, get nothing twice, and end with the latest change of each document', async () => {
    await followWhileWriting({ numRuns: 8, writes: 40, readers: 5 })
  })
})
