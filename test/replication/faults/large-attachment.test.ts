/** A large attachment is replicated within bounded memory; the long form has one of 2 GB. */
import { describe, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { replicateLargeAttachment } from './large-attachment.ts'

describe('an attachment of 200 MB', () => {
  it('is pulled within 250 MB of memory', async () => {
    const folders = [await temporaryFolder(), await temporaryFolder()] as const
    await replicateLargeAttachment({ sizeBytes: 200e6, limitBytes: 250e6, direction: 'pull', folders })
  }, 180_000)
})
