import { expect, it } from 'vitest'
import { nextVersion, versionBytes } from '../../../src/storage/rows/stored-key.ts'

it('versions count up, without those that the library cannot compare as doubles', () => {
  let skipped = 0
  let version = 0
  while (version < 0x10000) {
    const next = nextVersion(version)
    skipped += next - version - 1
    if (Number.isNaN(versionBytes(next).readDoubleLE())) throw new Error(`${next} is no number.`)
    version = next
  }
  expect(skipped).toBe(32)
  expect(nextVersion(2 ** 40 + 0xf07e)).toBe(2 ** 40 + 0xf080)
})
