import { expect, it } from 'vitest'
import { readLarge } from './large-listing.ts'

const MEGABYTE = 1024 * 1024

it('sends an attachment of 60 MB in JSON without having it in memory', async () => {
  for (const [resource, bytes] of await readLarge(60 * MEGABYTE)) {
    // It would be 160 MB, its size in Base64 twice: read and joined.
    expect([resource, bytes < 100 * MEGABYTE]).toEqual([resource, true])
  }
})
