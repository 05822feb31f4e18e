import { expect, it } from 'vitest'
import { uploadLarge } from './large-upload.ts'

it('takes an attachment of 2 GB with less than 512 MB of memory', async () => {
  const { peakBytes, slowestWriteMs } = await uploadLarge(2 * 1024 ** 3)
  console.log(`peak ${Math.round(peakBytes / 1e6)} MB, slowest small write ${Math.round(slowestWriteMs)} ms`)
  expect(peakBytes).toBeLessThan(512 * 1024 * 1024)
})
