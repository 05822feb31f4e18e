import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { CollationEncoder } from '../../src/encoding/collation/collation-key.ts'
import type { JsonValue } from '../../src/encoding/json/json-value.ts'
import { MAPPED_FIELDS } from '../../src/functions/functions.ts'
import { emittedBy, mapsOf, rowsOf, run, testFunctions } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

const bytes = (document: object) => Buffer.from(JSON.stringify(document))

describe('emit', () => {
  it('gives rows in the order of documents, functions and calls', async () => {
    const program = mapsOf(
      'function(doc) { emit(doc.n, "a"); emit(doc.n, "b") }',
      'function(doc) { if (doc.n !== 2) emit(-doc.n, doc) }',
    )
    const batch = await functions.map(program, [bytes({ n: 1 }), bytes({ n: 2 }), bytes({ n: 3 })], run)
    expect(rowsOf(batch)).toEqual([
      { document: 0, map: 0, key: 1, value: 'a' },
      { document: 0, map: 0, key: 1, value: 'b' },
      { document: 0, map: 1, key: -1, value: { n: 1 } },
      { document: 1, map: 0, key: 2, value: 'a' },
      { document: 1, map: 0, key: 2, value: 'b' },
      { document: 2, map: 0, key: 3, value: 'a' },
      { document: 2, map: 0, key: 3, value: 'b' },
      { document: 2, map: 1, key: -3, value: { n: 3 } },
    ])
  })

  it.each([
    ['nothing', 'emit()', null, null],
    ['a key alone', 'emit(1)', 1, null],
    ['undefined', 'emit(undefined, undefined)', null, null],
    ['functions', 'emit(function() {}, emit)', null, null],
    ['what is no number', 'emit(NaN, [Infinity, -Infinity])', null, [null, null]],
    ['dates', 'emit(new Date(0), [new Date(1)])', '1970-01-01T00:00:00.000Z', ['1970-01-01T00:00:00.001Z']],
    ['objects in their order', 'emit({ b: 1, a: 2 }, { z: undefined, y: 1 })', { b: 1, a: 2 }, { y: 1 }],
    [
      'text of any kind',
      'emit("\\u0000\\u0001\\u0003é😀\\ud800", "\\u0001\\u0002")',
      '\0\u0001\u0003é😀\ud800',
      '\u0001\u0002',
    ],
    ['what says how it is to be serialised', 'emit({ toJSON: function() { return [1] } })', [1], null],
  ])('takes %s', async (_, call, key, value) => {
    expect(await emittedBy(functions, mapsOf(`function(doc) { ${call} }`), {})).toEqual([[key, value]])
  })

  it('gives the sort key of each key, by the collation of its function', async () => {
    const source = 'function(doc) { doc.keys.forEach(function(key) { emit(key, null) }) }'
    const program = {
      ...mapsOf(source),
      maps: [
        { source, collation: 'unicode' },
        { source, collation: 'raw' },
      ] as const,
    }
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), async (values) => {
        const keys = JSON.parse(JSON.stringify(values)) as JsonValue[]
        const { rows, fields, block } = await functions.map(program, [bytes({ keys })], run)
        expect(rows).toBe(2 * keys.length)
        for (let row = 0; row < rows; row++) {
          const [, map, exact, sortKeyAt, keyAt] = fields.subarray(row * MAPPED_FIELDS)
          const encoder = new CollationEncoder(map === 1 ? 'raw' : 'unicode')
          const sortKey = encoder.encode(keys[row % keys.length] ?? null)
          expect(block.subarray(sortKeyAt, keyAt).equals(sortKey)).toBe(true)
          expect(exact === 1).toBe(encoder.exact)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('takes documents of every size in one batch', async () => {
    const sizes = [1, 100_000, 10, 60_000, 48 * 1024, 3_000_000, 0, ...Array.from({ length: 2000 }, () => 50)]
    const documents = sizes.map((size, n) => bytes({ n, text: 'ä'.repeat(size) }))
    const batch = await functions.map(mapsOf('function(doc) { emit(doc.n, doc.text.length) }'), documents, run)
    expect(rowsOf(batch).map(({ key, value }) => [key, value])).toEqual(sizes.map((size, n) => [n, size]))
  })
})

describe('an exception', () => {
  it('costs the rows of that function and document alone, and is logged', async () => {
    functions.lines.length = 0
    const program = mapsOf(
      'function(doc) { emit(doc._id); if (doc.bad) throw new TypeError("so bad") }',
      'function(doc) { emit(doc._id, 2) }',
    )
    expect(await emittedBy(functions, program, { _id: 'a' }, { _id: 'b', bad: true }, { _id: 'c' })).toEqual([
      ['a', null],
      ['a', 2],
      ['b', 2],
      ['c', null],
      ['c', 2],
    ])
    expect(functions.lines).toEqual(['function raised exception TypeError: so bad with doc._id b'])
  })

  it.each([
    ['a cycle', 'var o = {}; o.o = o; emit(1, o)'],
    ['a toJSON that throws', 'emit({ toJSON: function() { throw 1 } })'],
    ['a big integer', 'emit(1n)'],
    ['text', 'throw "text"'],
    ['nothing', 'throw undefined'],
    ['an object that cannot be shown', 'throw { toString: function() { throw 1 }, toJSON: function() { throw 1 } }'],
    ['an error of our own kind', 'throw ["error", "not_found", "x"]'],
    ['a deep recursion', '(function f() { f() })()'],
    ['a key that is nested too deeply', 'var k = []; for (var i = 0; i < 2000; i++) k = [k]; emit(k)'],
  ])('may be %s', async (_, body) => {
    const program = mapsOf(`function(doc) { emit("before"); if (doc.bad) { ${body} } }`)
    expect(await emittedBy(functions, program, { bad: true }, {})).toEqual([['before', null]])
  })

  it('names the document also where its key cannot be sorted', async () => {
    functions.lines.length = 0
    const source = 'function(doc) { var k = []; for (var i = 0; i < 1500; i++) k = [k]; if (doc.bad) emit(k) }'
    await emittedBy(functions, mapsOf(source), { _id: 'a' }, { _id: 'b', bad: true })
    expect(functions.lines).toEqual([
      expect.stringMatching(/^function raised exception RangeError: .* with doc\._id b$/),
    ])
  })

  it('stops the run when it is the text fatal_error', async () => {
    await expect(emittedBy(functions, mapsOf('function(doc) { throw "fatal_error" }'), {})).rejects.toMatchObject({
      kind: 'failed',
      error: 'map_runtime_error',
      reason: "function raised 'fatal_error'",
    })
  })

  it('stops the run with an error of its choice when it is fatal', async () => {
    const source = 'function(doc) { throw ["fatal", "my_error", "my reason"] }'
    await expect(emittedBy(functions, mapsOf(source), {})).rejects.toMatchObject({
      kind: 'failed',
      error: 'my_error',
      reason: 'my reason',
    })
  })

  it.each(['["fatal"]', 'new Proxy([], { get: function() { throw 1 } })'])(
    'leaves out one document when it only looks fatal: %s',
    async (thrown) => {
      const source = `function(doc) { if (doc.bad) throw ${thrown}; emit(doc._id) }`
      const rows = await emittedBy(functions, mapsOf(source), { _id: 'a' }, { _id: 'b', bad: true }, { _id: 'c' })
      expect(rows).toEqual([
        ['a', null],
        ['c', null],
      ])
    },
  )
})

it('a batch may take longer than the time of one document', async () => {
  functions.change({ timeoutMs: 400 })
  const source = 'function(doc) { var end = Date.now() + 30; while (Date.now() < end); emit(doc.n) }'
  const documents = Array.from({ length: 30 }, (_, n) => ({ n }))
  expect(await emittedBy(functions, mapsOf(source), ...documents)).toHaveLength(30)
  functions.change({ timeoutMs: 5000 })
})
