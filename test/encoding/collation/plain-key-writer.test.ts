import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Collation, CollationEncoder } from '../../../src/encoding/collation/collation-key.ts'
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'

/** Appends from text and from the value, behind the same key; both must agree. */
function expectSame(text: string, collation: Collation = 'unicode', after = ''): void {
  const fromText = new CollationEncoder(collation)
  const fromValue = new CollationEncoder(collation)
  for (const encoder of [fromText, fromValue]) encoder.append('before')
  const json = Buffer.from(`${text}${after}`)
  expect(fromText.appendText(json, 0)).toBe(Buffer.byteLength(text))
  fromValue.append(JSON.parse(text) as JsonValue)
  expect(fromText.copy().toString('hex')).toBe(fromValue.copy().toString('hex'))
  expect(fromText.exact).toBe(fromValue.exact)
}

describe('a sort key from JSON text is that of the value', () => {
  it.each([
    'null',
    'true',
    'false',
    '0',
    '-0',
    '7',
    '-7',
    '1234567890',
    '123456789012345',
    '-999999999999999',
    '1234567890123456789',
    '1.5',
    '-1e300',
    '1E5',
    '""',
    '"abc"',
    '"Abc DEF"',
    '"é"',
    '"\\u0000"',
    '"a\\"b"',
    '"日本"',
    '"\\ud800"',
    '"e\u0301"',
    '[]',
    '[[]]',
    '[1,"a",null,[true,{}]]',
    '{}',
    '{"a":1,"b":["c"]}',
    '{"]":"}","[":","}',
  ])('%s', (text) => {
    for (const after of ['', ',1]', ']', '}']) {
      expectSame(text, 'unicode', after)
      expectSame(text, 'raw', after)
    }
  })

  it('of any value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom<Collation>('unicode', 'raw'), (value, collation) => {
        expectSame(JSON.stringify(value), collation, ',null]')
      }),
    )
  })

  it('of any text, number and nesting that views have', () => {
    const scalar = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 12 }),
      fc.string({ maxLength: 12 }),
      fc.integer(),
      fc.double(),
      fc.maxSafeInteger(),
    )
    const nested = fc.letrec((tie) => ({ value: fc.oneof(scalar, fc.array(tie('value'), { maxLength: 4 })) }))
    fc.assert(
      fc.property(nested.value, (value) => expectSame(JSON.stringify(value), 'unicode', ',')),
      { numRuns: 60 },
    )
  })

  it('however deep it is nested, up to the limit', () => {
    for (const depth of [99, 100, 101, 999]) expectSame('['.repeat(depth) + ']'.repeat(depth))
    const tooDeep = Buffer.from('['.repeat(1001) + ']'.repeat(1001))
    expect(() => new CollationEncoder().appendText(tooDeep, 0)).toThrow(RangeError)
  })

  it('and there is none where there is no value', () => {
    for (const text of ['', ',', '[1', '"abc', 'nul', 'x', '-', '[1,]', '{"a"}']) {
      const encoder = new CollationEncoder()
      expect(() => encoder.appendText(Buffer.from(text), 0), text).toThrow()
    }
  })
})

it('keys are copied to where they are wanted', () => {
  const encoder = new CollationEncoder()
  encoder.append(['a', 1])
  const target = Buffer.alloc(encoder.length + 4)
  encoder.copyTo(target, 2)
  expect(target.subarray(2, -2).equals(encoder.copy())).toBe(true)
})
