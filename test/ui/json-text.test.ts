/** The interface edits documents as texts: what is not touched comes back byte for byte. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  arrayItems,
  formatJson,
  formattedTokens,
  jsonError,
  memberText,
  topLevelMembers,
  withMember,
  withoutMembers,
} from '../../ui/src/json/json-text.ts'

const DIGITS =
  '{"big":12345678901234567890,"ratio":1.10,"exp":1E400,"2":"b","1":"a","s":"\\u00e9\\"{","a":[1,{}],"o":{}}'

describe('JSON as text', () => {
  it('is indented with its digits, escapes and order', () => {
    expect(formatJson(DIGITS)).toBe(
      '{\n  "big": 12345678901234567890,\n  "ratio": 1.10,\n  "exp": 1E400,\n  "2": "b",\n  "1": "a",\n' +
        '  "s": "\\u00e9\\"{",\n  "a": [\n    1,\n    {}\n  ],\n  "o": {}\n}',
    )
  })

  it('is formatted as JSON.stringify does where nothing can be lost', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const value: unknown = JSON.parse(text)
        expect(formatJson(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2))
      }),
    )
  })

  it('has one member changed and the others left alone', () => {
    const changed = withMember(DIGITS, 'ratio', '2.50')
    expect(changed).toBe(DIGITS.replace('1.10', '2.50'))
    expect(withMember('{"a":1}', '_rev', '"1-x"')).toBe('{"_rev": "1-x", "a":1}')
    expect(withMember('{}', '_rev', '"1-x"')).toBe('{"_rev": "1-x"}')
  })

  it('loses members only by name', () => {
    expect(withoutMembers('{"_id":"x", "n" : 1.0, "o":{"_id":2}}', ['_id'])).toBe('{"n" : 1.0,"o":{"_id":2}}')
    expect(topLevelMembers('[1]')).toEqual([])
  })

  it('returns the text of members and items', () => {
    expect(memberText(DIGITS, 'a')).toBe('[1,{}]')
    expect(memberText(DIGITS, 'none')).toBeUndefined()
    expect(arrayItems(' [ 1.0 , {"a":[2,3]} ,"," ] ')).toEqual(['1.0', '{"a":[2,3]}', '","'])
    expect(arrayItems('[]')).toEqual([])
  })

  it('is coloured by kinds', () => {
    const kinds = [...formattedTokens('{"k":["s",1,true]}')].filter(({ kind }) => kind !== 'mark')
    expect(kinds.map(({ kind, text }) => `${kind} ${text}`)).toEqual(['key "k"', 'string "s"', 'number 1', 'word true'])
  })

  it('reports errors of text that is not JSON', () => {
    expect(jsonError('{"a":1}')).toBeUndefined()
    expect(jsonError('{"a":}')).toMatch(/JSON/)
  })
})
