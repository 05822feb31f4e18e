import { afterAll, describe, expect, it } from 'vitest'
import { emittedBy, mapsOf, run, testFunctions } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

describe('a source is', () => {
  it.each([
    ['an anonymous function', 'function(doc) { emit(doc.a, 1) }'],
    ['surrounded by blanks', '\n  function(doc) { emit(doc.a, 1) }\n\n '],
    ['surrounded by comments', '/* before */ function(doc){ emit(doc.a, 1) } // after'],
    ['behind a line comment', '// before\nfunction(doc){ emit(doc.a, 1) } /* after */'],
    ['followed by a semicolon', 'function (doc) {emit(doc.a, 1)};'],
    ['followed by many semicolons and a comment', 'function (doc) {emit(doc.a, 1)} ; ;; // end'],
    ['a named function', 'function mapper(doc) { emit(doc.a, 1) }'],
    ['a named function and a semicolon', 'function mapper(doc) { emit(doc.a, 1) };'],
    ['in parentheses', '(function(doc) { emit(doc.a, 1) })'],
    ['an expression that gives a function', '(function(){ var n = 1; return function(doc){ emit(doc.a, n) }; })()'],
    ['an arrow function', '(doc) => { emit(doc.a, 1) }'],
    ['an arrow function and a semicolon', 'doc => emit(doc.a, 1);'],
    ['modern', '({ a, ...rest }) => { const n = rest.none ?? 1; emit(a, n) }'],
    ['statements and a function', 'var n = 1; (function(doc) { emit(doc.a, n) })'],
    ['statements with a declaration', 'function one() { return 1 }\n(function(doc) { emit(doc.a, one()) });'],
    ['an assignment and a function', 'n = 1; (function(doc) { emit(doc.a, n) })'],
  ])('%s', async (_, source) => {
    expect(await emittedBy(functions, mapsOf(source), { a: 'x' })).toEqual([['x', 1]])
  })
})

describe('what is not a function', () => {
  const compile = (source: string) => functions.map(mapsOf(source), [Buffer.from('{}')], run)

  it.each([
    ['a number', '1'],
    ['an object', '{"a": 1}'],
    ['text', '"function(doc) {}"'],
    ['statements without a function', 'var a = 1; a'],
  ])('is distinguished: %s', async (_, source) => {
    await expect(compile(source)).rejects.toMatchObject({
      kind: 'failed',
      error: 'compilation_error',
      reason: `Expression does not eval to a function. (${source})`,
    })
  })

  it.each(['function(doc) {', 'function(doc) { emit( }', 'function(', '', 'not a function', '}'])(
    'is a compilation error: %s',
    async (source) => {
      const error = await compile(source).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ kind: 'failed', error: 'compilation_error' })
      expect(String(error)).toContain(`(${source})`)
    },
  )

  it('names the error', async () => {
    await expect(compile('function(doc) { emit(1 }')).rejects.toMatchObject({
      reason: 'SyntaxError: missing ) after argument list (function(doc) { emit(1 })',
    })
  })

  it('is reported again at each call', async () => {
    const program = mapsOf('function(')
    for (let time = 0; time < 3; time++) {
      await expect(functions.map(program, [], run)).rejects.toMatchObject({ error: 'compilation_error' })
      await expect(functions.map(program, [Buffer.from('{}')], run)).rejects.toMatchObject({
        error: 'compilation_error',
      })
    }
  })

  it('is reported for reduce functions, and an empty source is not a function', async () => {
    const reduce = (source: string) => functions.rereduce({ language: 'javascript', source }, [['1']], run)
    await expect(reduce('function(')).rejects.toMatchObject({ error: 'compilation_error' })
    await expect(reduce('')).rejects.toMatchObject({
      kind: 'not found',
      error: 'not_found',
      reason: 'missing function',
    })
  })
})

it('is in a language that there is', async () => {
  const program = { ...mapsOf('function(doc) {}'), language: 'klingon' }
  await expect(functions.map(program, [], run)).rejects.toMatchObject({
    kind: 'failed',
    error: 'unknown_query_language',
    reason: 'klingon',
  })
})

it('runs in sloppy mode unless it asks for strict', async () => {
  const sloppy = 'function(doc) { undeclared = 1; emit(typeof this, undeclared) }'
  expect(await emittedBy(functions, mapsOf(sloppy), {})).toEqual([['object', 1]])
  const strict = 'function(doc) { "use strict"; emit(1); undeclaredToo = 1 }'
  expect(await emittedBy(functions, mapsOf(strict), {})).toEqual([])
  const strictScript = '"use strict"; (function(doc) { emit(this === undefined) })'
  expect(await emittedBy(functions, mapsOf(strictScript), {})).toEqual([[true, null]])
})
