import { describe, it } from 'vitest'
import { followWhileWriting } from './changes-model.ts'

describe('readers of changes who come and go while others write, for long', () => {
  it('miss nothing, get nothing twice, and end with the latest change of each document', async () => {
    await followWhileWriting({ numRuns: 300, writes: 300, readers: 20 })
  })
})
