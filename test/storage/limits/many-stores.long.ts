import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runManyStores } from './many-stores.ts'

/** What is closed goes at the next garbage collection: that many megabytes may wait for it. */
const RESIDENT_MEGABYTES_LIMIT = 1000

describe('two thousand stores', () => {
  it('are created, written, read after a restart, compacted and dropped in bounded memory', async () => {
    const parts = await runManyStores(await temporaryFolder(), 2000)
    console.table(parts)
    for (const { part, residentMegabytes } of parts) {
      expect(residentMegabytes, part).toBeLessThan(RESIDENT_MEGABYTES_LIMIT)
    }
    expect(parts.at(-1)!.known).toBe(0)
  })
})
