import fc from 'fast-check'
import { expect, it } from 'vitest'
import { keyOrder } from '../../src/views/building/key-order.ts'

const byte = fc.constantFrom(0, 0, 1, 2, 255)
const key = fc.array(byte, { maxLength: 14 }).map((bytes) => Buffer.from(bytes))

it('puts keys into the order of their bytes, and leaves equal ones as they were', () => {
  fc.assert(
    fc.property(fc.array(key, { maxLength: 200 }), fc.array(byte, { maxLength: 9 }), (keys, prefix) => {
      const whole = keys.map((each) => Buffer.concat([Buffer.from(prefix), each]))
      const expected = whole.map((_, i) => i).sort((a, b) => Buffer.compare(whole[a]!, whole[b]!))
      expect([...orderOf(whole)]).toEqual(expected)
    }),
    { numRuns: 500 },
  )
})

it('distinguishes keys that end with different numbers of zeros', () => {
  const keys = Array.from({ length: 50 }, (_, i) => Buffer.concat([Buffer.from('a'), Buffer.alloc((i * 7) % 50)]))
  const lengths = [...orderOf(keys)].map((i) => keys[i]!.length)
  expect(lengths).toEqual(lengths.toSorted((a, b) => a - b))
})

function orderOf(keys: readonly Buffer[]): Uint32Array {
  const bounds = new Uint32Array(3 * keys.length)
  let at = 0
  for (const [i, { length }] of keys.entries()) {
    bounds.set([at, at + length, at + length], 3 * i)
    at += length
  }
  return keyOrder(Buffer.concat(keys), bounds, keys.length)
}
