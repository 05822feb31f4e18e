import { expect, it } from 'vitest'
import { uploadLarge } from './large-upload.ts'

it('takes an attachment of 100 MB without having it in memory, and lets others write meanwhile', async () => {
  const { peakBytes, writes } = await uploadLarge(100 * 1024 * 1024)
  expect(peakBytes).toBeLessThan(300 * 1024 * 1024)
  expect(writes).toBeGreaterThan(5)
})
