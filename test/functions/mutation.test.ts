/** What map functions may change, by their text; and that rows are the same whichever way they are gathered. */
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { mutationBy } from '../../src/functions/child/mutation.ts'
import { emittedBy, mapsOf, testFunctions } from './test-functions.ts'

describe('a function', () => {
  it.each([
    'function(doc) { emit(doc._id, null) }',
    'function(doc) { if (doc.type === "a" && doc.tags) doc.tags.forEach(function(tag) { emit(tag, doc) }) }',
    'function(doc) { for (var i = 0; i < doc.n; i++) { var x = doc.list[i]; if (x >= 1) emit([x, i], { x: x }) } }',
    'function(doc) { var d = new Date(doc.at); emit([d.getFullYear(), d.getMonth()], doc.settings == null ? 0 : 1) }',
    '(doc) => { for (const key of Object.keys(doc)) emit(key, doc[key]) } // the end',
    'function(doc) { /* all of them */ emit(Array.isArray(doc.a) ? doc.a[0] : doc.a) }',
  ])('changes nothing: %s', (source) => {
    expect(mutationBy([source])).toEqual({ mayChange: false, isSteady: true })
  })

  it.each([
    'doc.x = 1',
    'doc.x++',
    '--doc.x',
    'doc["x"] += 1',
    'doc.list[0] ??= 1',
    'doc.list.push(1)',
    'doc.list["pu" + "sh"](1)',
    'delete doc.x',
    'Object.assign(doc, {})',
    'Array.prototype.x = 1',
    '[doc.x] = [1]',
    '({ a: doc.x } = { a: 1 })',
    'for (doc.x of [1]) emit(1)',
    'doc.x /* so */ = 1',
    'doc.x // so\n = 1',
    'doc. /* so */ x = 1',
    'doc.\\u0078 = 1',
    'require("lib").change(doc)',
    'eval("doc.x = 1")',
    'this.x = doc',
  ])('may change its document: %s', (body) => {
    expect(mutationBy([`function(doc) { ${body} }`])).toEqual({ mayChange: true, isSteady: false })
  })

  it.each([
    'var n = 0; emit({ get x() { return n } })',
    'emit({ toJSON: function() { return 1 } })',
    'var d = new Date(0); emit(d); d.setFullYear(2000)',
    'emit(new Proxy({}, {}))',
    'emit(1n)',
    'emit(BigInt(1))',
  ])('emits what has another text later, or none: %s', (body) => {
    expect(mutationBy([`function(doc) { ${body} }`])).toEqual({ mayChange: false, isSteady: false })
  })

  it('is judged together with the others of its index', () => {
    const steady = 'function(doc) { emit(1) }'
    expect(mutationBy([steady, 'function(doc) { doc.x = 1 }'])).toEqual({ mayChange: true, isSteady: false })
    expect(mutationBy([steady, 'function(doc) { emit(1n) }'])).toEqual({ mayChange: false, isSteady: false })
  })
})

describe('rows', () => {
  const functions = testFunctions()
  afterAll(() => functions.close())

  const each = 'function(doc) { doc.rows.forEach(function(row) { emit(row[0], row[1]) }); if (doc.bad) throw doc.bad }'
  const steady = mapsOf(each, 'function(doc) { emit(doc._id) }')
  /** A word in it that tells nothing good. */
  const unsteady = mapsOf(`${each} // this`, 'function(doc) { emit(doc._id) }')

  it('are the same where text is made of many at once and where it is made one by one', async () => {
    const row = fc.tuple(fc.jsonValue(), fc.jsonValue())
    const document = fc.record({ _id: fc.string(), rows: fc.array(row), bad: fc.constantFrom(0, 0, 0, 'bad') })
    await fc.assert(
      fc.asyncProperty(fc.array(document, { maxLength: 8 }), async (documents) => {
        const rows = await emittedBy(functions, steady, ...documents)
        expect(rows).toEqual(await emittedBy(functions, unsteady, ...documents))
        const expected = documents.flatMap(({ _id, rows, bad }) => [...(bad ? [] : rows), [_id, null]])
        expect(JSON.stringify(rows)).toBe(JSON.stringify(expected))
      }),
      { numRuns: 40 },
    )
  })

  it.each([0, 1, 499, 500, 501, 1700])('of one document may be many: %i', async (count) => {
    const rows = Array.from({ length: count }, (_, n) => [n, [n]])
    const documents = [
      { _id: 'a', rows: rows.slice(0, 3) },
      { _id: 'b', rows },
      { _id: 'c', rows, bad: 'bad' },
      { _id: 'd', rows: [['last', 1]] },
    ]
    const expected = [...rows.slice(0, 3), ['a', null], ...rows, ['b', null], ['c', null], ['last', 1], ['d', null]]
    expect(await emittedBy(functions, steady, ...documents)).toEqual(expected)
    expect(await emittedBy(functions, unsteady, ...documents)).toEqual(expected)
  })

  it.each([1, 700])('that have no text cost their function and document, however many there are: %i', async (count) => {
    functions.lines.length = 0
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const rows = Array.from({ length: count }, (_, n) => `[${n},0]`)
    const texts = [rows, [...rows, `[0,${deep}]`], rows].map((each, n) => `{"_id":"${'abc'[n]}","rows":[${each}]}`)
    const batch = await functions.map(
      steady,
      texts.map((text) => Buffer.from(text)),
      { owner: 'test' },
    )
    expect(batch.rows).toBe(2 * count + 3)
    expect(functions.lines).toEqual([expect.stringMatching(/^function raised exception RangeError.* with doc\._id b$/)])
  })

  it('are as they were emitted, whatever becomes of the values', async () => {
    const source = 'function(doc) { var v = { n: 0 }; for (; v.n < 3; v.n++) emit(v.n, v) }'
    expect(await emittedBy(functions, mapsOf(source), {})).toEqual([
      [0, { n: 0 }],
      [1, { n: 1 }],
      [2, { n: 2 }],
    ])
  })
})
