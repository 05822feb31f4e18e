import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compareBytes } from '../../../src/encoding/bytes/short-bytes.ts'

describe('the order of bytes', () => {
  const bytes = fc.uint8Array({ maxLength: 100 })

  it('is the one that the engine gives', () => {
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        expect(Math.sign(compareBytes(a, b))).toBe(Buffer.compare(a, b))
      }),
    )
  })

  it('sees the first difference, however far behind it is', () => {
    fc.assert(
      fc.property(bytes, bytes, bytes, (common, a, b) => {
        const [left, right] = [Buffer.concat([common, a]), Buffer.concat([common, b])]
        expect(Math.sign(compareBytes(left, right))).toBe(Buffer.compare(left, right))
      }),
    )
  })
})
