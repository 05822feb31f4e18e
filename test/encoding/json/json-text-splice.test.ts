import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { membersOf, quoteBytes, quoteText, spliceObject } from '../../../src/encoding/json/json-text-splice.ts'

describe('quoting', () => {
  it('escapes quotes, backslashes and control characters only', () => {
    expect(quoteText('a"\\/\n\u0001é😀\u2028')).toBe('"a\\"\\\\/\\n\\u0001é😀\u2028"')
  })

  it('gives what the engine gives, whatever the text and its length', () => {
    const text = fc.oneof(fc.string({ maxLength: 80 }), fc.string({ unit: 'binary', maxLength: 80 }))
    fc.assert(
      fc.property(text, (each) => {
        expect(quoteText(each)).toBe(JSON.stringify(each.toWellFormed()))
      }),
    )
  })

  it('replaces lone surrogates', () => {
    expect(quoteBytes('\ud800')).toEqual(Buffer.from('"\ufffd"'))
  })
})

describe('splicing', () => {
  it('joins what is not empty', () => {
    expect(spliceObject([]).toString()).toBe('{}')
    expect(spliceObject(['', Buffer.alloc(0)]).toString()).toBe('{}')
    expect(spliceObject(['', '"é":1', '', membersOf(Buffer.from('{"b":"ü"}'))]).toString()).toBe('{"é":1,"b":"ü"}')
  })

  it('ends a line with a newline', () => {
    expect(spliceObject([], { isLine: true }).toString()).toBe('{}\n')
    expect(spliceObject(['"é":1', Buffer.from('"b":2')], { isLine: true }).toString()).toBe('{"é":1,"b":2}\n')
  })

  it('gives the object of all members', () => {
    const object = fc.dictionary(
      // Assigning that one would change the prototype of what is expected.
      fc.string().filter((name) => name !== '__proto__'),
      fc.jsonValue(),
    )
    fc.assert(
      fc.property(fc.array(object), (objects) => {
        const parts = objects.map((part) => membersOf(Buffer.from(JSON.stringify(part))))
        expect(JSON.parse(spliceObject(parts).toString())).toEqual(
          Object.assign({}, ...objects.map((part) => JSON.parse(JSON.stringify(part)))),
        )
      }),
    )
  })
})
