import { afterAll, describe, expect, it } from 'vitest'
import { designOf, run, testFunctions } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

describe('a filter', () => {
  const filter = (source: unknown, documents: object[], request: object = {}) =>
    functions.filter(
      designOf({ filters: { test: source } }),
      'test',
      documents.map((document) => JSON.stringify(document)),
      JSON.stringify(request),
      run,
    )

  it('lets pass what it finds true', async () => {
    const source = 'function(doc, req) { return doc.a === req.query.a && this._id && doc.text }'
    const documents = [
      { a: 1, text: 'x' },
      { a: 1, text: '' },
      { a: 2, text: 'x' },
    ]
    expect(await filter(source, documents, { query: { a: 1 } })).toEqual([true, false, false])
    expect(await filter('function() { return {} }', [])).toEqual([])
  })

  it.each([
    ['an error', 'throw new TypeError("no")', 'failed', 'TypeError', 'no'],
    ['text', 'throw "so"', 'failed', 'unnamed_error', 'so'],
    ['an identifier and a reason', 'throw ["error", "forbidden", "go"]', 'forbidden', 'forbidden', 'go'],
    ['an object with them', 'throw { error: "my_error", reason: "mine" }', 'failed', 'my_error', 'mine'],
    ['a fatal one', 'throw ["fatal", "my_error", "mine"]', 'failed', 'my_error', 'mine'],
  ])('that throws %s fails', async (_, body, kind, error, reason) => {
    await expect(filter(`function() { ${body} }`, [{}])).rejects.toMatchObject({ kind, error, reason })
  })

  it('must be there', async () => {
    for (const source of [undefined, { nested: 'function() {}' }, 1]) {
      await expect(filter(source, [{}])).rejects.toMatchObject({
        kind: 'not found',
        error: 'not_found',
        reason: 'missing json key: test',
      })
    }
    const inherited = functions.filter(designOf({ filters: {} }), 'constructor', ['{}'], '{}', run)
    await expect(inherited).rejects.toMatchObject({ kind: 'not found', reason: 'missing json key: constructor' })
  })

  it('may be a map function that emits', async () => {
    const design = designOf({ views: { v: { map: 'function(doc) { if (doc.a) emit(doc.a) }' } } })
    expect(await functions.filterByView(design, 'v', ['{"a":1}', '{}', '{"a":2}'], run)).toEqual([true, false, true])
    await expect(functions.filterByView(design, 'w', ['{}'], run)).rejects.toMatchObject({
      kind: 'not found',
      reason: 'missing json key: w',
    })
    const throwing = designOf({ views: { v: { map: 'function(doc) { emit(1); throw new Error("x") }' } } })
    await expect(functions.filterByView(throwing, 'v', ['{}'], run)).rejects.toMatchObject({
      kind: 'failed',
      error: 'Error',
      reason: 'x',
    })
  })
})

describe('validation', () => {
  const write = (document: object, others: { previous?: object; user?: object; security?: object } = {}) => ({
    document: JSON.stringify(document),
    previous: others.previous ? JSON.stringify(others.previous) : null,
    user: JSON.stringify(others.user ?? {}),
    security: JSON.stringify(others.security ?? {}),
  })
  const validate = (source: unknown, ...writes: ReturnType<typeof write>[]) =>
    functions.validate(designOf({ validate_doc_update: source }), writes, run)

  it('sees both documents, the user and the security object', async () => {
    const source = `function(newDoc, oldDoc, userCtx, secObj) {
      throw { forbidden: [newDoc, oldDoc, userCtx.name, secObj.admins, this._id] }
    }`
    const others = { previous: { n: 1 }, user: { name: 'u' }, security: { admins: {} } }
    const [verdict] = await validate(source, write({ n: 2 }, others))
    expect(verdict).toMatchObject({
      kind: 'forbidden',
      error: 'forbidden',
      reasonValue: [{ n: 2 }, { n: 1 }, 'u', {}, '_design/test'],
    })
    const [first] = await validate(source, write({ n: 2 }))
    expect(first).toMatchObject({ reasonValue: [{ n: 2 }, null, null, null, '_design/test'] })
  })

  it('gives a verdict a write', async () => {
    const source = 'function(doc) { if (doc.bad) throw { forbidden: doc.bad }; return false }'
    const verdicts = await validate(source, write({}), write({ bad: 'one' }), write({}), write({ bad: 'two' }))
    expect(verdicts).toEqual([
      undefined,
      expect.objectContaining({ reason: 'one' }),
      undefined,
      expect.objectContaining({ reason: 'two' }),
    ])
  })

  it.each([
    ['{ forbidden: "x" }', 'forbidden', 'forbidden', 'x'],
    ['{ forbidden: { a: [1] } }', 'forbidden', 'forbidden', { a: [1] }],
    ['{ unauthorized: "x" }', 'unauthorized', 'unauthorized', 'x'],
    ['{ other: "x" }', 'failed', 'unknown_error', 'x'],
    ['"text"', 'failed', 'unknown_error', 'text'],
    ['{ forbidden: "x", more: 1 }', 'failed', 'unknown_error', '{"forbidden":"x","more":1}'],
    ['{}', 'failed', 'unknown_error', '{}'],
    ['[1, "a"]', 'failed', 'unknown_error', '[1,"a"]'],
    ['17', 'failed', 'unknown_error', '17'],
    ['undefined', 'failed', 'unknown_error', 'undefined'],
    ['new TypeError("no")', 'failed', 'TypeError', 'no'],
    ['new Error("no")', 'failed', 'Error', 'no'],
  ])('refuses with %s', async (thrown, kind, error, reasonValue) => {
    expect(await validate(`function() { throw ${thrown} }`, write({}))).toMatchObject([{ kind, error, reasonValue }])
  })

  it('reports the error of a module', async () => {
    const verdicts = await validate('function() { require("none") }', write({}))
    expect(verdicts).toMatchObject([{ kind: 'failed', error: 'invalid_require_path' }])
  })

  it('fails when the function does not compile, and passes all when there is none', async () => {
    await expect(validate('function(', write({}))).rejects.toMatchObject({ kind: 'failed', error: 'compilation_error' })
    expect(await validate(undefined, write({}), write({}))).toEqual([undefined, undefined])
    expect(await validate(null, write({}))).toEqual([undefined])
  })

  it('gets documents that it may change', async () => {
    const source = 'function(doc, old) { doc.n = 1; old.n = 2; if (doc.n + old.n !== 3) throw "frozen" }'
    expect(await validate(source, write({}, { previous: {} }))).toEqual([undefined])
  })
})
