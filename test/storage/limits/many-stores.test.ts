import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runManyStores } from './many-stores.ts'

describe('two hundred stores', () => {
  it('are created, written, read after a restart, compacted and dropped with few files open', async () => {
    const parts = await runManyStores(await temporaryFolder(), 200)
    const atFirst = parts[0]!
    for (const { part, descriptors, known } of parts) {
      // Three for each idle file, and some slack for what is being opened and closed.
      expect(descriptors - atFirst.descriptors, part).toBeLessThanOrEqual(3 * 60)
      expect(known, part).toBeLessThanOrEqual(60)
    }
    const atLast = parts.at(-1)!
    expect(atLast.descriptors).toBeLessThanOrEqual(atFirst.descriptors + 5)
    expect(atLast.known).toBe(0)
  })
})
