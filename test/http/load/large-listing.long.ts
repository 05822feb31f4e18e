import { expect, it } from 'vitest'
import { readLarge } from './large-listing.ts'

const MEGABYTE = 1024 * 1024

it('sends an attachment of 1 GB in JSON with less than 100 MB more memory', async () => {
  for (const [resource, bytes] of await readLarge(1024 * MEGABYTE)) {
    console.log(`${resource}: ${Math.round(bytes / MEGABYTE)} MB more`)
    expect([resource, bytes < 100 * MEGABYTE]).toEqual([resource, true])
  }
})
