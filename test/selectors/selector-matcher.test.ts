/** Selectors matched on JSON text agree with a plain evaluation of the parsed document. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { conditionJson } from '../../src/selectors/condition.ts'
import { parseSelector } from '../../src/selectors/parse-selector.ts'
import { selectorMatcher } from '../../src/selectors/selector-matcher.ts'
import { type Json, naiveMatch } from '../support/naive-selector.ts'
import { smallDocument, smallSelector } from '../support/random-selectors.ts'

function matches(selector: unknown, document: unknown): boolean {
  return selectorMatcher(selector).matches(Buffer.from(JSON.stringify(document)))
}

function errorOf(selector: unknown): { error: string; reason: string } {
  try {
    parseSelector(selector)
  } catch (error) {
    return error as { error: string; reason: string }
  }
  throw new Error('The selector was taken.')
}

describe('a selector', () => {
  it('agrees with the plain evaluation', () => {
    fc.assert(
      fc.property(smallSelector, fc.array(smallDocument, { maxLength: 8 }), (selector, documents) => {
        const matcher = selectorMatcher(selector)
        for (const [i, document] of documents.entries()) {
          const whole: Record<string, Json> = { _id: 'abc'[i % 3]!, ...document }
          const text = Buffer.from(JSON.stringify(whole))
          expect(matcher.matches(text)).toBe(naiveMatch(selector, whole))
          const body = Buffer.from(`xx${JSON.stringify(document)}`)
          const members = new Map([['_id', Buffer.from(JSON.stringify(whole._id))]])
          expect(matcher.matchesBeside(members, body, 2)).toBe(naiveMatch(selector, whole))
        }
      }),
      { numRuns: 2000 },
    )
  })

  it('means the same in its normal form', () => {
    fc.assert(
      fc.property(smallSelector, smallDocument, (selector, document) => {
        const normal = conditionJson(parseSelector(selector))
        expect(matches(normal, { _id: 'a', ...document })).toBe(naiveMatch(selector, { _id: 'a', ...document }))
        expect(conditionJson(parseSelector(normal))).toEqual(normal)
      }),
      { numRuns: 500 },
    )
  })

  it('finds a value in a long list as it does in a short one', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'A', 'ä', '\u0301', '\u0000', '"', '-'), maxLength: 3 })
    const value = fc.oneof(
      text,
      fc.constantFrom<Json>(0, -0, 1, 1.5, 1e21, 2 ** 53, true, false, null, [], [1], {}, { a: 1 }),
    )
    fc.assert(
      fc.property(fc.array(value, { minLength: 5, maxLength: 30 }), value, (list, searched) => {
        const document = { a: searched }
        const isMatch = list.some((each) => matches({ a: { $in: [each] } }, document))
        expect(matches({ a: { $in: list } }, document)).toBe(isMatch)
        expect(matches({ a: { $nin: list } }, document)).toBe(!isMatch)
      }),
      { numRuns: 3000 },
    )
  })

  it('has a normal form', () => {
    expect(conditionJson(parseSelector({ a: 1, b: { c: { $gt: 2, $lt: 5 } } }))).toEqual({
      $and: [{ a: { $eq: 1 } }, { $and: [{ 'b.c': { $gt: 2 } }, { 'b.c': { $lt: 5 } }] }],
    })
    expect(conditionJson(parseSelector({ $not: { $or: [{ a: 1 }, { b: { $regex: 'x' } }] } }))).toEqual({
      $and: [{ a: { $ne: 1 } }, { b: { $not: { $regex: 'x' } } }],
    })
    expect(conditionJson(parseSelector({}))).toEqual({})
  })

  it.each<[selector: unknown, document: unknown, isMatch: boolean]>([
    [{ 'a\\.b': 1 }, { 'a.b': 1 }, true],
    [{ 'a\\.b': 1 }, { a: { b: 1 } }, false],
    [{ a: { b: 1 } }, { a: { b: 1, c: 2 } }, true],
    [{ a: { $eq: { b: 1 } } }, { a: { b: 1, c: 2 } }, false],
    [{ a: {} }, { a: {} }, true],
    [{ a: {} }, { a: { b: 1 } }, false],
    [{ a: { $exists: false } }, {}, true],
    [{ 'a.b': { $exists: false } }, { a: 1 }, false],
    [{ 'a.b': { $exists: false } }, {}, true],
    [{ 'a.3': { $exists: false } }, { a: [1] }, false],
    [{ a: { $ne: 1 } }, {}, false],
    [{ a: { $not: { $regex: 'x' } } }, {}, false],
    [{ a: { $in: [[1]] } }, { a: [1] }, false],
    [{ a: { $in: [1] } }, { a: [2, 1] }, true],
    [{ a: { $all: [1, 1, 2] } }, { a: [2, 1] }, true],
    [{ a: { $all: [1, 2] } }, { a: [1, 1, 1] }, false],
    [{ a: { $all: [1, 2, 3] } }, { a: [1, 2] }, false],
    [{ a: { $all: [[1, 2]] } }, { a: [1, 2] }, true],
    [{ a: { $all: [[]] } }, { a: [] }, true],
    [{ a: { $all: [[1, 2]] } }, { a: [1, 2] }, true],
    [{ a: { $all: [] } }, { a: [] }, false],
    [{ a: { $mod: [2, 0] } }, { a: 4.5 }, false],
    [{ a: { $lt: 1 } }, { a: null }, true],
    [{ a: { $gt: 'm' } }, { a: 'M' }, true],
    [{ a: { $gt: 'M' } }, { a: 'm' }, false],
    [{ a: 'é' }, { a: 'e\u0301' }, true],
    [{ a: 'ab' }, { a: 'a\u0000b' }, true],
    [{ _id: { $gt: 'a' } }, { _id: 'B' }, false],
    [{ _id: { $gt: null } }, { _id: 'B' }, true],
    [{ size: 4, $or: [] }, { size: 4 }, true],
    [{ a: { $beginsWith: 'x"' } }, { a: 'x"y' }, true],
    [{ 'tab\t': 1 }, { 'tab\t': 1 }, true],
    [{ a: { $elemMatch: { $gt: 1, $lt: 3 } } }, { a: [0, 2] }, true],
    [{ a: { $elemMatch: { b: 1 } } }, { a: [{ b: 1 }] }, true],
    [{ a: { $allMatch: { b: 1 } } }, { a: [] }, false],
    [{ a: { $keyMapMatch: { $eq: 'b' } } }, { a: { b: 0 } }, true],
  ])('%j on %j: %s', (selector, document, isMatch) => {
    expect(matches(selector, document)).toBe(isMatch)
  })

  it('divides integers of any length', () => {
    expect(selectorMatcher({ a: { $mod: [4, 1] } }).matches(Buffer.from('{"a":9007199254740993}'))).toBe(true)
  })

  it('reads names that are written with escapes', () => {
    expect(selectorMatcher({ ab: 1 }).matches(Buffer.from('{"x":[{"ab":2}],"\\u0061b":1}'))).toBe(true)
  })

  it.each([
    [[], 'invalid_selector_json', 'Selector must be a JSON object, not: []'],
    [{ $gt: 1 }, 'invalid_selector', 'One or more conditions is missing a field name.'],
    [{ $or: [{ $gt: 1 }] }, 'invalid_selector', 'One or more conditions is missing a field name.'],
    [{ 'a..b': 1 }, 'invalid_field_name', 'Invalid field name: a..b'],
    [{ a: { $foo: 1 } }, 'invalid_operator', 'Invalid operator: $foo'],
    [{ a: { $text: 'x' } }, 'not_supported', 'Unsupported operator: $text'],
    [{ a: { $near: 'x' } }, 'not_supported', 'Unsupported operator: $near'],
    [{ a: { $exists: 1 } }, 'bad_arg', 'Bad argument for operator $exists: 1'],
    [{ a: { $type: 1 } }, 'bad_arg', 'Bad argument for operator $type: 1'],
    [{ a: { $in: 1 } }, 'bad_arg', 'Bad argument for operator $in: 1'],
    [{ a: { $nin: {} } }, 'bad_arg', 'Bad argument for operator $nin: {}'],
    [{ a: { $size: -1 } }, 'bad_arg', 'Bad argument for operator $size: -1'],
    [{ a: { $mod: [0, 1] } }, 'bad_arg', 'Bad argument for operator $mod: [0,1]'],
    [{ a: { $mod: [1.5, 1] } }, 'bad_arg', 'Bad argument for operator $mod: [1.5,1]'],
    [{ a: { $regex: '(' } }, 'bad_arg', 'Bad argument for operator $regex: ('],
    [{ a: { $regex: 1 } }, 'invalid_operator', 'Invalid operator: $regex'],
    [{ a: { $beginsWith: 1 } }, 'invalid_operator', 'Invalid operator: $beginsWith'],
    [{ a: { $elemMatch: 1 } }, 'bad_arg', 'Bad argument for operator $elemMatch: 1'],
    [{ $and: {} }, 'bad_arg', 'Bad argument for operator $and: {}'],
    [{ $not: [] }, 'bad_arg', 'Bad argument for operator $not: []'],
  ])('is refused: %j', (selector, error, reason) => {
    expect(errorOf(selector)).toMatchObject({ kind: 'invalid', error, reason })
  })

  it('is refused when it is nested too deeply', () => {
    let selector: unknown = { a: 1 }
    for (let i = 0; i < 200; i++) selector = { $and: [selector] }
    expect(errorOf(selector).error).toBe('invalid_selector')
    let value: unknown = 1
    for (let i = 0; i < 2000; i++) value = [value]
    expect(errorOf({ a: value }).error).toBe('invalid_selector')
    expect(errorOf({ a: { $in: [value] } }).error).toBe('invalid_selector')
  })
})
