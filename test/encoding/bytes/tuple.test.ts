import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeTuple, encodeTuple, type Tuple, type TupleElement } from '../../../src/encoding/bytes/tuple.ts'

const { tuple } = fc.letrec<{ tuple: TupleElement[]; element: TupleElement }>((tie) => ({
  tuple: fc.array(tie('element'), { maxLength: 4 }),
  element: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.uint8Array({ maxLength: 6 }).map((bytes) => Buffer.from(bytes)),
    fc.array(fc.constantFrom(0, 1, 254, 255), { maxLength: 4 }).map((bytes) => Buffer.from(bytes)),
    fc.string({ unit: 'binary', maxLength: 5 }),
    fc.constantFrom('', '\0', 'a', 'a\0', 'a\0b', 'aé'),
    fc.maxSafeNat(),
    fc.integer({ min: 0, max: 300 }),
    tie('tuple'),
  ),
}))

function compare(a: Tuple, b: Tuple): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = compareElements(a[i]!, b[i]!)
    if (order !== 0) return order
  }
  return a.length - b.length
}

function compareElements(a: TupleElement, b: TupleElement): number {
  const kinds = kind(a) - kind(b)
  if (kinds !== 0) return kinds
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b))
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b)
  if (Array.isArray(a) && Array.isArray(b)) return compare(a, b)
  throw new Error('Unreachable: the kinds are the same.')
}

function kind(element: TupleElement): number {
  if (element instanceof Uint8Array) return 0
  if (typeof element === 'string') return 1
  return typeof element === 'number' ? 3 : 2
}

describe('tuples', () => {
  it('come back as they were', () => {
    fc.assert(
      fc.property(tuple, (each) => {
        expect(decodeTuple(encodeTuple(each))).toEqual(each)
      }),
    )
  })

  it('sort by their bytes as they sort by their elements', () => {
    fc.assert(
      fc.property(tuple, tuple, (a, b) => {
        expect(Math.sign(Buffer.compare(encodeTuple(a), encodeTuple(b)))).toBe(Math.sign(compare(a, b)))
      }),
      { numRuns: 5000 },
    )
  })

  it('have no encoding that begins with a zero byte', () => {
    fc.assert(
      fc.property(tuple, (each) => {
        expect(encodeTuple(each)[0]).not.toBe(0)
      }),
    )
  })

  it.each([-1, 1.5, Number.NaN, 2 ** 53])('refuse %d, which is not an unsigned integer', (value) => {
    expect(() => encodeTuple([value])).toThrow(RangeError)
  })

  it.each([
    ['cut off in a text', [0x02, 0x61]],
    ['cut off in an integer', [0x0e, 0x01]],
    ['of no known kind', [0x77]],
    ['cut off in a nested tuple', [0x05, 0x0c]],
  ])('are not read from bytes %s', (_, bytes) => {
    expect(() => decodeTuple(Buffer.from(bytes))).toThrow(RangeError)
  })
})
