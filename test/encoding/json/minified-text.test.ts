import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { endOfValue } from '../../../src/encoding/json/minified-text.ts'

describe('the end of a value', () => {
  it('is where its text ends, whatever follows', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom('', ',', '}', ']', ',"next":1}', ']]'), (value, after) => {
        const text = JSON.stringify(value)
        const before = '{"a":'
        const bytes = Buffer.from(before + text + after)
        expect(endOfValue(bytes, before.length)).toBe(Buffer.byteLength(before + text))
      }),
    )
  })

  it.each(['""', '"\\\\"', '"\\\\\\""', '"a\\""', '{"\\"}":"]"}', '["\\\\","\\""]', '[[],{}]', '-1.5e3', 'null'])(
    'is found in %s',
    (text) => {
      expect(endOfValue(Buffer.from(`${text},1`), 0)).toBe(text.length)
    },
  )
})
