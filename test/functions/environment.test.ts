import { afterAll, describe, expect, it } from 'vitest'
import { emittedBy, inside, mapsOf, run, shown, testFunctions } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

describe('a function finds', () => {
  it.each([
    ['emit', 'typeof emit', 'function'],
    ['log', 'typeof log', 'function'],
    ['the sum of an array', 'sum([1, 2, 3.5])', 6.5],
    ['the sum of the members of an object', 'sum({ a: 1, b: 2 })', 3],
    ['sums that texts turn into texts', 'sum([1, "a", 2])', '1a2'],
    ['the sum of nothing', 'sum([])', 0],
    ['isArray', '[isArray([]), isArray({ length: 0 }), isArray("a")]', [true, false, false]],
    ['toJSON', 'toJSON({ a: [undefined] })', '{"a":[null]}'],
    ['JSON', 'JSON.parse("[1]")', [1]],
    ['require', 'typeof require', 'function'],
    ['provides and registerType', '[typeof provides, typeof registerType]', ['function', 'function']],
    ['start, send and getRow', '[typeof start, typeof send, typeof getRow]', ['function', 'function', 'function']],
    [
      'the language',
      '[typeof Map, typeof RegExp, typeof Date, typeof Intl, typeof eval]',
      ['function', 'function', 'function', 'object', 'function'],
    ],
  ])('%s', async (_, expression, value) => {
    expect(await inside(functions, expression)).toEqual(value)
  })
})

it.each([
  'console',
  'print',
  'readline',
  'quit',
  'gc',
  'load',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'queueMicrotask',
  'process',
  'Buffer',
  'global',
  'module',
  'exports',
  'fetch',
  'XMLHttpRequest',
  'WebAssembly',
  'SharedArrayBuffer',
  'Atomics',
  'structuredClone',
  'map_results',
  'map_funs',
  'State',
  'host',
  '$0',
])('a function does not find %s', async (name) => {
  expect(await inside(functions, `typeof ${name}`)).toBe('undefined')
  await expect(shown(functions, `function() { return ${name} }`)).rejects.toMatchObject({
    error: 'render_error',
    reason: expect.stringContaining(`ReferenceError: ${name} is not defined`),
  })
})

it('a reduce function finds no require', async () => {
  const source = 'function() { return typeof require }'
  expect(await functions.rereduce({ language: 'javascript', source }, [['1']], run)).toEqual(['"undefined"'])
})

it('what is meant for another kind of function has no effect', async () => {
  const source = 'function() { emit(1); start({}); var row = getRow(); registerType("x", "a/b"); return toJSON(row) }'
  expect(await shown(functions, source)).toEqual({ body: 'null' })
  const map = 'function(doc) { send("x"); start({ code: 404 }); emit(getRow()) }'
  expect(await emittedBy(functions, mapsOf(map), {})).toEqual([[null, null]])
})

it('log writes texts as they are and all else as JSON', async () => {
  functions.lines.length = 0
  await shown(functions, 'function() { log("plain"); log({ a: [1] }); log(undefined); log(null); return "" + log(1) }')
  expect(functions.lines).toEqual(['plain', '{"a":[1]}', 'undefined', 'null', '1'])
})

describe('a document that is mapped', () => {
  const document = { _id: 'a', n: 1, list: [1, 2], deep: { er: { n: 1 } } }

  it.each([
    ['an assignment is ignored', 'doc.n = 2; emit(doc.n)', 1],
    ['an increment is ignored', 'doc.n++; ++doc.deep.er.n; emit([doc.n, doc.deep.er.n])', [1, 1]],
    ['a new member is ignored', 'doc.x = 2; doc["y"] = 3; emit([doc.x, doc.y])', [null, null]],
    ['a deletion is ignored', 'delete doc.n; emit(doc.n)', 1],
    [
      'a deep assignment is ignored',
      'doc.deep.er.n = 2; doc.list[0] = 5; emit([doc.deep.er.n, doc.list])',
      [1, [1, 2]],
    ],
    [
      'a compound assignment is ignored',
      'doc.n += 5; doc.n ||= 3; doc.list[1] <<= 2; emit([doc.n, doc.list])',
      [1, [1, 2]],
    ],
    ['Object.assign throws', 'try { Object.assign(doc, { n: 2 }) } catch (e) { emit(doc.n) }', 1],
    ['a pattern is ignored', '[doc.n, doc.x] = [5, 6]; ({ n: doc.n } = { n: 7 }); emit(doc.n)', 1],
    ['a loop is ignored', 'for (doc.n of [5]) {} emit(doc.n)', 1],
  ])('%s', async (_, body, key) => {
    expect(await emittedBy(functions, mapsOf(`function(doc) { ${body} }`), document)).toEqual([[key, null]])
  })

  it.each([
    'doc.list.push(3)',
    'doc.list.sort()',
    'doc.list.length = 0; doc.list.reverse()',
    '[].push.call(doc.list, 1)',
  ])('throws at %s', async (statement) => {
    expect(await emittedBy(functions, mapsOf(`function(doc) { emit(1); ${statement} }`), document)).toEqual([])
  })

  it('throws in strict code', async () => {
    const source = 'function(doc) { "use strict"; emit(1); doc.n = 2 }'
    expect(await emittedBy(functions, mapsOf(source), document)).toEqual([])
  })

  it('is the same for all functions, whatever one does', async () => {
    const program = mapsOf(
      'function(doc) { doc.n = 2; doc.deep.er.n = 3; delete doc.list }',
      'function(doc) { emit(doc, null) }',
    )
    expect(await emittedBy(functions, program, document)).toEqual([[document, null]])
  })
})

it('documents of shows are private copies', async () => {
  const source = 'function(doc) { doc.n = (doc.n || 0) + 1; doc.list.push(1); return { json: doc } }'
  for (let time = 0; time < 2; time++) {
    expect(await shown(functions, source, { document: { list: [] } })).toEqual({ json: { n: 1, list: [1] } })
  }
})

it('this is the design document, and it serialises', async () => {
  const source = 'function() { return { json: { keys: Object.keys(this), text: JSON.stringify(this).length > 10 } } }'
  expect(await shown(functions, source)).toEqual({ json: { keys: ['_id', 'shows'], text: true } })
})
