/** Fields that are cut out of a document's text. */
import { describe, expect, it } from 'vitest'
import { fieldProjection } from '../../src/selectors/field-projection.ts'

function project(fields: readonly string[], document: unknown): string {
  return fieldProjection(fields)!
    .project(Buffer.from(JSON.stringify(document)))
    .toString()
}

const DOCUMENT = { _id: 'x', a: { b: 1, c: [10, { d: 2 }] }, 'e.f': 3, n: 1.5 }

describe('some fields of a document', () => {
  it.each([
    [['n', '_id'], '{"n":1.5,"_id":"x"}'],
    [['a.b', 'n', 'a.c'], '{"a":{"b":1,"c":[10,{"d":2}]},"n":1.5}'],
    [['a.c.1.d'], '{"a":{"c":{"1":{"d":2}}}}'],
    [['a.b', 'a'], '{"a":{"b":1,"c":[10,{"d":2}]}}'],
    [['a', 'a.b'], '{"a":{"b":1,"c":[10,{"d":2}]}}'],
    [['e\\.f'], '{"e.f":3}'],
    [['nope', 'a.nope', 'n.x', 'a.c.7'], '{}'],
    [['n', 'n'], '{"n":1.5}'],
  ])('%j', (fields, expected) => {
    expect(project(fields, DOCUMENT)).toBe(expected)
  })

  it('keeps the digits of numbers', () => {
    const text = Buffer.from('{"a":12345678901234567890.10,"b":"\\u0041"}')
    expect(fieldProjection(['b', 'a'])!.project(text).toString()).toBe('{"b":"\\u0041","a":12345678901234567890.10}')
  })

  it('is all fields for an empty list', () => {
    expect(fieldProjection([])).toBeUndefined()
  })

  it.each([
    ['x', 'invalid_fields', 'Fields must be an array of strings, not: x'],
    [[1], 'invalid_field', 'Invalid JSON for field spec: 1'],
    [[''], 'invalid_field_name', 'Invalid field name: '],
  ])('is refused: %j', (fields, error, reason) => {
    expect(() => fieldProjection(fields)).toThrow(expect.objectContaining({ kind: 'invalid', error, reason }))
  })
})
