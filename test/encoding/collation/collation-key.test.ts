import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CollationEncoder,
  collationKey,
  collationVersion,
  deepestNesting,
  rawCollationKey,
} from '../../../src/encoding/collation/collation-key.ts'
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'
import { threadMs } from '../../support/processor-time.ts'
import { CollationTexts } from '../collation-texts.ts'
import { compareRawValues, compareValues } from '../naive-collation.ts'

const runs = { numRuns: 5000, seed: 20_240_229 }

/** Texts that meet in a prefix, an accent or a capital, and few numbers: equal and nearly equal values must come up. */
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom('a', 'A', 'b', 'á', 'a\u0301', 'é', ' ', '-', '中', 'я', '가'), maxLength: 5 }),
  fc.string({ unit: 'grapheme', maxLength: 5 }),
  fc.string({ unit: 'binary', maxLength: 3 }).map((binary) => binary.normalize('NFD')),
)
const number = fc.oneof(fc.constantFrom(0, -0, 1, -1, 2024, 0.1), fc.integer(), fc.double({ noNaN: true }))
const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    fc.constantFrom(null, false, true),
    number,
    text,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(text, tie('value'), { maxKeys: 3 }),
  ),
}))

function expectAscending(values: JsonValue[], key = collationKey): void {
  const sorted = values.toReversed().sort((left, right) => Buffer.compare(key(left), key(right)))
  expect(sorted).toEqual(values)
}

describe('view order', () => {
  it('puts null, false, true, numbers, text, arrays and objects one after the other', () => {
    expectAscending([null, false, true, -1e308, -1, 0, 1, 1e308, '', 'a', [], [null], {}, { a: null }])
  })

  it('takes case as a tie-break over the whole text', () => {
    expectAscending(['m', 'M', 'mango', 'Mango', 'n'])
  })

  it('compares objects member by member in stored order', () => {
    expectAscending([{ y: 5 }, { y: 5, x: 0 }, { y: 5, z: 0 }])
    expect(collationKey({ x: 1, y: 2 }).equals(collationKey({ y: 2, x: 1 }))).toBe(false)
  })

  it('puts punctuation, symbols, digits and letters in the order of the root collation', () => {
    expectAscending([...'_-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$09azZ'])
  })

  it('has upper ends for ranges: U+FFF0 above letters, U+FFFF above all, {} above arrays', () => {
    expectAscending(['zebra', 'яблоко', '中', '\ufff0', '\u{10fffd}', '\uffff'])
    expectAscending(['foo', 'foobar', 'foozzz', 'foo\ufff0', 'foo\uffff', 'fop'])
    expectAscending([['a'], ['a', 1], ['a', 'z'], ['a', ['z']], ['a', {}], ['b']])
  })

  it('gives integer and float forms of a number, and both zeros, one key', () => {
    expect(collationKey(JSON.parse('[1.0, 1e2, -0]'))).toEqual(collationKey(JSON.parse('[1, 100, 0]')))
  })

  it('takes texts as equal that differ in ignored characters or in composition only', () => {
    expect(collationKey('a\u0000b')).toEqual(collationKey('ab'))
    expect(collationKey('\u00c5')).toEqual(collationKey('A\u030a'))
    expect(collationKey('\u212b')).toEqual(collationKey('A\u030a'))
    expect(collationKey('각')).toEqual(collationKey('\u1100\u1161\u11a8'))
  })

  it('orders lone surrogates like code points without a meaning', () => {
    expectAscending(['中', '\ud800', '\ud800a', '\udfff', '\ufffd'])
  })

  it('orders any two values as the rules say', () => {
    fc.assert(
      fc.property(value, value, (left, right) => {
        expect(Buffer.compare(collationKey(left), collationKey(right))).toBe(compareValues(left, right))
      }),
      runs,
    )
  })

  it('keeps the order whatever follows the keys', () => {
    const tail = fc.uint8Array({ maxLength: 3 })
    fc.assert(
      fc.property(value, value, tail, tail, (left, right, leftTail, rightTail) => {
        const order = Buffer.compare(collationKey(left), collationKey(right))
        if (order === 0) return
        const leftRow = Buffer.concat([collationKey(left), leftTail])
        const rightRow = Buffer.concat([collationKey(right), rightTail])
        expect(Buffer.compare(leftRow, rightRow)).toBe(order)
      }),
      runs,
    )
  })
})

describe('raw order', () => {
  it('puts numbers, false, null, true, objects, arrays and text one after the other', () => {
    expectAscending(
      [-1, 0, 2.5, false, null, true, {}, { a: 1 }, [], [0], '', 'A', 'Z', 'a', 'é', '中', '😀'],
      rawCollationKey,
    )
  })

  it('compares text by UTF-8 bytes', () => {
    expectAscending(['', '\u0000', '\u0000a', '\u0001', '\u0002', 'a', 'a\u0000', 'a\u0001', 'aa'], rawCollationKey)
    expectAscending(['\ud7ff', '\ud800', '\ue000', '\uffff', '\u{10000}'], rawCollationKey)
  })

  it('orders any two values as the rules say, whatever follows', () => {
    const tail = fc.uint8Array({ maxLength: 3 })
    fc.assert(
      fc.property(value, value, tail, tail, (left, right, leftTail, rightTail) => {
        const order = compareRawValues(left, right)
        expect(Buffer.compare(rawCollationKey(left), rawCollationKey(right))).toBe(order)
        if (order === 0) return
        const leftRow = Buffer.concat([rawCollationKey(left), leftTail])
        const rightRow = Buffer.concat([rawCollationKey(right), rightTail])
        expect(Buffer.compare(leftRow, rightRow)).toBe(order)
      }),
      runs,
    )
  })
})

describe('CollationEncoder', () => {
  it('appends keys that are the same as those made alone', () => {
    const encoder = new CollationEncoder()
    const values: JsonValue[] = ['user', 'Crème brûlée', ['x', { y: [1, -2.5] }], null, '中'.repeat(2000)]
    for (const single of values) encoder.append(single)
    expect(encoder.copy()).toEqual(Buffer.concat(values.map((single) => collationKey(single))))
    const start = encoder.length
    encoder.append('last')
    expect(encoder.copy(start)).toEqual(collationKey('last'))
  })

  it('gives out keys that later keys do not overwrite', () => {
    const encoder = new CollationEncoder()
    const first = encoder.encode('first')
    encoder.encode('second')
    expect(first).toEqual(collationKey('first'))
  })

  it.each<[JsonValue, boolean]>([
    ['Hello, World!', true],
    [[1, 'a', { b: null }], true],
    ['Crème brûlée, Привет, 中文, 한국어, Ελληνικά', true],
    ['Cre\u0300me', false],
    ['a\u0000', false],
    ['\u212b', false],
    ['\u1100\u1161', false],
    [{ 'a\u00ad': 1 }, false],
    ['เก', false],
  ])('says of %j whether its key is exact: %s', (single, isExact) => {
    const encoder = new CollationEncoder()
    encoder.encode(single)
    expect(encoder.exact).toBe(isExact)
    encoder.encode('plain')
    expect(encoder.exact).toBe(true)
  })

  it('calls at most one of several different texts with one key exact', () => {
    const encoder = new CollationEncoder()
    const texts = new CollationTexts(3)
    const exactTexts = new Map<string, string>()
    let shared = 0
    for (let i = 0; i < 100_000; i++) {
      const first = texts.text()
      for (const single of [first, first.normalize('NFC'), texts.variant(first)]) {
        const key = encoder.encode(single).toString('latin1')
        if (!encoder.exact) continue
        const other = exactTexts.get(key) ?? single
        if (other !== single) expect.fail(`${JSON.stringify(other)} and ${JSON.stringify(single)} share an exact key`)
        if (exactTexts.has(key)) shared++
        exactTexts.set(key, single)
      }
    }
    expect(shared).toBeGreaterThan(1000)
  })

  it('refuses values that are nested too deep, and works on after that', () => {
    const nested = (depth: number): JsonValue => JSON.parse('['.repeat(depth) + ']'.repeat(depth))
    expect(collationKey(nested(deepestNesting)).length).toBe(2 * deepestNesting)
    expect(() => collationKey(nested(deepestNesting + 1))).toThrow('nested deeper than 1000 levels')
    expect(() => collationKey(nested(100_000))).toThrow(RangeError)
    expect(collationKey([])).toHaveLength(2)
  })

  it('takes time in proportion to the text, however its marks are arranged', () => {
    const marks = '\u0f71\u0f72\u0334\u0301'.repeat(25_000)
    const tookMs = threadMs(() => {
      collationKey(`\u0fb2${marks}`)
      collationKey('\u0f71'.repeat(50_000) + '\u0f72'.repeat(50_000))
    })
    expect(tookMs).toBeLessThan(5000)
  })

  it('says which version its keys are of', () => {
    expect(collationVersion).toMatch(/^cldr-\d+\/uca-\d+\.\d+\.\d+\/encoding-\d+$/)
  })
})

describe('key length', () => {
  it('is at most 1.6 bytes a Latin letter', () => {
    expect(collationKey('abcdefghijklmnopqrstuvwxyz').length).toBeLessThanOrEqual(1.6 * 26)
    expect(collationKey('ABCDEFGHIJKLMNOPQRSTUVWXYZ').length).toBeLessThanOrEqual(2.2 * 26)
    const sentence = 'The quick brown fox jumps over the lazy dog, again and again.'
    expect(collationKey(sentence).length).toBeLessThanOrEqual(1.1 * sentence.length)
  })

  it('is at most what UTF-8 takes and a little for other scripts', () => {
    for (const word of ['Здравствуйте', 'καλημέρα', '数据库索引排序', 'שלום', 'مرحبا']) {
      expect(collationKey(word).length).toBeLessThanOrEqual(Buffer.byteLength(word) + 6)
    }
  })

  it('is small for small integers', () => {
    expect([0, 1, -1, 100, 2024].map((small) => collationKey(small).length)).toEqual([2, 3, 3, 4, 4])
  })
})
