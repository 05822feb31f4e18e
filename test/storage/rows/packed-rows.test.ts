import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  compareKeys,
  PackedRowsWriter,
  packedKey,
  packedValue,
  unpacked,
} from '../../../src/storage/rows/packed-rows.ts'

const bytes = fc.uint8Array({ maxLength: 80 }).map((array) => Buffer.from(array))

it('gives back what was added, copied or not, and compares keys as they are', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(bytes, bytes), { minLength: 1, maxLength: 40 }), (rows) => {
      const packed = new PackedRowsWriter(8)
      for (const [key, value] of rows) {
        packed.reserve(key.length + value.length)
        key.copy(packed.block, packed.end)
        value.copy(packed.block, packed.end + key.length)
        packed.close(packed.end + key.length, packed.end + key.length + value.length)
      }
      const backwards = new PackedRowsWriter(8)
      for (let row = packed.length - 1; row >= 0; row--) backwards.copy(packed, row)
      expect([...unpacked(packed)]).toEqual(rows)
      expect([...unpacked(backwards)]).toEqual(rows.toReversed())
      const last = packed.length - 1
      expect([packedKey(packed, last), packedValue(packed, last)]).toEqual(rows[last])
      expect(compareKeys(packed, 0, backwards, 0)).toBe(Buffer.compare(rows[0]![0], rows[last]![0]))
    }),
  )
})
