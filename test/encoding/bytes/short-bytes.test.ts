import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  compareBytes,
  NUMBER_BYTES,
  VarintReader,
  varintBytes,
  writeVarint,
} from '../../../src/encoding/bytes/short-bytes.ts'

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

describe('a varint', () => {
  it('takes as many bytes as are counted, and is read as it was written', () => {
    const bytes = Buffer.alloc(NUMBER_BYTES)
    fc.assert(
      fc.property(fc.oneof(fc.nat(), fc.maxSafeNat(), fc.constantFrom(0, 127, 128, 16_383, 16_384)), (number) => {
        expect(varintBytes(number)).toBe(writeVarint(bytes, 0, number))
        expect(new VarintReader(bytes, 0).number()).toBe(number)
      }),
    )
  })
})
