/** An attachment of 2 GB is replicated within 300 MB of memory, either way. */
import { describe, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { replicateLargeAttachment } from './large-attachment.ts'

describe('an attachment of 2 GB', () => {
  it.each(['push', 'pull'] as const)('is replicated within 300 MB of memory: %s', async (direction) => {
    const folders = [await temporaryFolder(), await temporaryFolder()] as const
    await replicateLargeAttachment({ sizeBytes: 2e9, limitBytes: 300e6, direction, folders })
  })
})
