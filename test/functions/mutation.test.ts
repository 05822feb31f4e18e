/** What map functions may change, by their text; and that rows are the same whichever way they are gathered. */
import { parse } from 'acorn'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { changeNothing, type Parse } from '../../src/functions/child/mutation.ts'
import { emittedBy, mapsOf, testFunctions } from './test-functions.ts'

const parseScript: Parse = (script) => parse(script, { ecmaVersion: 'latest', sourceType: 'script' })

function isSteady(...sources: string[]): boolean {
  return changeNothing(sources, parseScript)
}

describe('a function', () => {
  it.each([
    'function(doc) { emit(doc._id, null) }',
    'function(doc) { if (doc.type === "a" && doc.tags) doc.tags.forEach(function(tag) { emit(tag, doc) }) }',
    'function(doc) { for (var i = 0; i < doc.n; i++) { var x = doc.list[i]; if (x >= 1) emit([x, i], { x: x }) } }',
    'function(doc) { var d = new Date(doc.at); emit([d.getFullYear(), d.getMonth()], doc.settings == null ? 0 : 1) }',
    '(doc) => { for (const key of Object.keys(doc)) emit(key, doc[key]) } // the end',
    'function(doc) { /* all of them */ emit(Array.isArray(doc.a) ? doc.a[0] : doc.a) }',
    'function(doc) { var sum = 0; for (var k in doc.parts) sum += doc.parts[k].n; emit(doc._id, sum) }',
    'function(doc) { function key(x) { return String(x).toLowerCase() } emit(doc.tags.map(key).join(), { ...doc.meta }) }',
    'function map(doc) { const { a: [first], ...rest } = doc; emit(first?.b ?? `n`, rest) }',
    'function(doc) { emit(doc.text.replace(/x/g, "y").split(" ").filter(x => x).reduce((a, b) => a + b, 0)) }',
    'function(doc) { try { emit(JSON.parse(doc.json)) } catch (error) { emit(null, error.message) } }',
    'doc => emit(doc.n)',
  ])('leaves everything as it is: %s', (source) => {
    expect(isSteady(source)).toBe(true)
  })

  it.each([
    'doc.x = 1',
    'doc.x++',
    '(doc.x)++',
    '((doc.x)) += 1',
    '--doc.x',
    '--(doc.x)',
    'doc["x"] += 1',
    'doc.list[0] ??= 1',
    'doc.list.push(1)',
    'doc.list["pu" + "sh"](1)',
    'delete doc.x',
    'Object.assign(doc, {})',
    'Array.prototype.x = 1',
    '[doc.x] = [1]',
    '({ a: doc.x } = { a: 1 })',
    '({ ...doc.x } = { a: 1 })',
    'for (doc.x of [1]) emit(1)',
    'for (doc.x in { a: 1 }) emit(1)',
    'for ([doc.x] of [[1]]) emit(1)',
    'doc.x /* so */ = 1',
    'doc.x // so\n = 1',
    'doc. /* so */ x = 1',
    'doc.\\u0078 = 1',
    'doc.list.\\u0070ush(1)',
    'require("lib").change(doc)',
    'eval("doc.x = 1")',
    '(0, eval)("doc.x = 1")',
    'var e = eval; e("doc.x = 1")',
    'new Function("doc", "doc.x = 1")(doc)',
    'emit.constructor("doc", "doc.x = 1")(doc)',
    'this.x = doc',
    'x = doc',
    'emit = function() {}',
    '[1].forEach(doc.list.push, doc.list)',
    '[doc].map(Object.assign)',
    'var f = Object.assign; [doc].map(f)',
    'var f = Object.assign; f(doc, {})',
    'function f(g) { g(doc, {}) } f(Object.assign)',
    'JSON.stringify(doc, doc.list.push)',
    'JSON.parse("[1]", doc.list.push)',
    'JSON.stringify(...[doc, doc.list.push])',
    '"doc.x = 1".replace(/.*/, eval)',
    'Reflect.set(doc, "x", 1)',
    'with (doc) { x = 1 }',
    'class A { constructor(o) { return o } } class B extends A { x = 1 } new B(doc)',
    'doc.list.sort()',
    'Array.prototype.push.call(doc.list, 1)',
    'doc.__proto__.y = 1',
    'doc.list.length--',
    'arguments[0].x = 1',
    'f`x`',
    'doc?.list?.push(1)',
    'function h() { function g() {} } g(doc)',
    'function h() { var g } g = Object.assign',
    '{ let emit = Object.assign; emit(doc, {}) }',
    'var Date = Object.assign; new Date(doc, {})',
    'var n = 0; emit({ get x() { return n } })',
    'emit({ toJSON: function() { return 1 } })',
    'emit({ "toJSON": function() { return 1 } })',
    'emit({ ["to" + "JSON"]: function() { return 1 } })',
    'emit({ __proto__: doc })',
    'var d = new Date(0); emit(d); d.setFullYear(2000)',
    'emit(new Proxy({}, {}))',
    'emit(1n)',
    'emit(BigInt(1))',
    'var o = {}; emit(o); (o.k)++',
    'var o = []; emit(o); o.push(1)',
    'new Promise(function() {})',
    'label: for (;;) break label',
    'x <!-- y\n',
  ])('may change something: %s', (body) => {
    expect(isSteady(`function(doc) { ${body} }`)).toBe(false)
  })

  it.each([
    'function* (doc) { emit(1) }',
    'async function(doc) { emit(1) }',
    'function(doc) { emit(1) }; doc.x = 1',
    'function(doc) { emit(1) }), (this.x = 1',
    'var n = 0; (function(doc) { emit(n) })',
    '(function() { return function(doc) { emit(1) } })()',
    'function(doc) { emit( }',
    'function(doc, x = doc.y++) { emit(1) }',
    'function({ a = doc.y++ }) { emit(1) }',
    `function(doc) { ${'{'.repeat(20_000)}${'}'.repeat(20_000)} }`,
    `function(doc) { emit(${'('.repeat(10_000)}1${')'.repeat(10_000)}) }`,
    `function(doc) { /* ${'x'.repeat(70_000)} */ }`,
    '',
    '1',
  ])('is nothing to rely on: %.60s', (source) => {
    expect(isSteady(source)).toBe(false)
  })

  it('is judged together with the others of its index', () => {
    const steady = 'function(doc) { emit(1) }'
    expect(isSteady(steady, steady)).toBe(true)
    expect(isSteady(steady, 'function(doc) { doc.x = 1 }')).toBe(false)
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

  /** Statements of all sorts, over a document, an object `o` and a list `l`. */
  const STATEMENTS = [
    'emit(doc.n, o)',
    'emit(o.k, doc)',
    'emit(l, doc.list)',
    'emit(doc)',
    'emit(o)',
    'doc.list.forEach(function(x) { emit(x, o) })',
    'doc.list.map(x => emit(x, l))',
    ...[
      'doc.n',
      'o.k',
      'doc.list[0]',
      'l[1]',
      'doc.deep.x',
      '(doc.n)',
      '((o.k))',
      '(doc.list)[0]',
      'o["k"]',
      'l.length',
    ].flatMap((place) => [
      `${place}++`,
      `--${place}`,
      `${place} += 2`,
      `${place} = 7`,
      `${place} ??= 1`,
      `[${place}] = [5]`,
    ]),
    '({ a: doc.n, b: o.k } = { a: 8, b: 9 })',
    'for (doc.n of [4, 5]) emit(doc.n, o)',
    'for (o.k in { y: 1 }) emit(o.k, doc)',
    'delete doc.n',
    'delete o.k',
    'doc.list.push(3)',
    'l.push(3)',
    'l.sort(); doc.list.reverse()',
    'Object.assign(o, { z: 1 })',
    'Object.assign(doc, { z: 1 })',
    '[o].map(Object.assign)',
    '[1].forEach(l.push, l)',
    '[1].forEach(doc.list["pu" + "sh"], doc.list)',
    'JSON.stringify(o, l.push)',
    'eval("o.k = 6; doc.n = 6")',
    'o = { k: 10 }',
    'l = l.concat(1)',
    'o.self = doc',
    'o.toJSON = function() { return this.k }',
    'Object.defineProperty(o, "k", { get: function() { return l.length }, enumerable: true })',
  ]

  /** As the interface has it: the document is frozen, and what is emitted is text from then on. */
  function naiveRows(bodies: readonly string[], text: string): unknown[] {
    const document = deepFrozen(JSON.parse(text))
    return bodies.flatMap((body) => {
      const rows: unknown[] = []
      const emit = (key: unknown = null, value: unknown = null) =>
        void rows.push(JSON.parse(JSON.stringify([key, value])))
      try {
        new Function('emit', `return function(doc) { ${body} }`)(emit)(document)
        return rows
      } catch {
        return []
      }
    })
  }

  it('are those of a frozen document, of text that was made at once, whatever functions try to change', async () => {
    const bodyOf = fc
      .array(fc.constantFrom(...STATEMENTS), { minLength: 1, maxLength: 5 })
      .map((statements) => `var o = { k: 1 }, l = [1, 2]; ${statements.join('; ')}`)
    await fc.assert(
      fc.asyncProperty(fc.array(bodyOf, { minLength: 1, maxLength: 3 }), async (bodies) => {
        const text = '{"_id":"a","n":1,"list":[1,2],"deep":{"x":1}}'
        const sources = [...bodies, 'emit(doc)'].map((body) => `function(doc) { ${body} }`)
        const rows = await emittedBy(functions, mapsOf(...sources), JSON.parse(text))
        expect(rows, sources.join('\n')).toEqual(naiveRows([...bodies, 'emit(doc)'], text))
      }),
      { numRuns: 150 },
    )
  })
})

function deepFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const member of Object.values(value)) deepFrozen(member)
  return Object.freeze(value)
}
