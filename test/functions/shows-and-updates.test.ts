import { afterAll, describe, expect, it } from 'vitest'
import { designOf, run, shown, testFunctions } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

describe('a show', () => {
  it.each([
    ['text', 'return "hi"', { body: 'hi' }],
    ['an object', 'return { code: 302, headers: { Location: "/" } }', { code: 302, headers: { Location: '/' } }],
    ['members in their order', 'return { base64: "YQ==", body: "x" }', { base64: 'YQ==', body: 'x' }],
    ['nothing', 'return', {}],
    ['null', 'return null', {}],
    ['false', 'return false', {}],
    ['what it was given', 'return { json: [doc, req.id, this._id] }', { json: [{ _id: 'a' }, 'i', '_design/test'] }],
  ])('may return %s', async (_, body, response) => {
    expect(await shown(functions, `function(doc, req) { ${body} }`, { request: { id: 'i' } })).toEqual(response)
  })

  it.each(['[]', '1', 'true'])('may not return %s', async (value) => {
    await expect(shown(functions, `function() { return ${value} }`)).rejects.toMatchObject({
      kind: 'failed',
      error: 'render_error',
      reason: 'undefined response from show function',
    })
  })

  it('may send, before what it returns', async () => {
    const source = 'function() { send("a"); send(1); send({ toString: function() { return "b" } }); return "c" }'
    expect(await shown(functions, source)).toEqual({ body: 'a1bc', headers: {} })
    await expect(shown(functions, 'function() { send(null) }')).rejects.toMatchObject({ error: 'render_error' })
  })

  it('starts with headers, or with a response', async () => {
    expect(
      await shown(
        functions,
        'function() { start({ "X-A": "b" }); send("x"); return { headers: { "X-A": "a", "X-B": "c" } } }',
      ),
    ).toEqual({
      headers: { 'X-A': 'b', 'X-B': 'c' },
      body: 'x',
    })
    expect(await shown(functions, 'function() { start({ code: 201, headers: { A: "b" } }); send("x") }')).toEqual({
      code: 201,
      headers: { A: 'b' },
      body: 'x',
    })
    expect(await shown(functions, 'function() { start({ A: "b" }); return "x" }')).toEqual({ body: 'x' })
  })

  it.each([
    ['["error", "bad_request", "r"]', 'invalid', 'bad_request', 'r'],
    ['["error", "query_parse_error", "r"]', 'invalid', 'query_parse_error', 'r'],
    ['["error", "unauthorized", "r"]', 'unauthorized', 'unauthorized', 'r'],
    ['["error", "forbidden", "r"]', 'forbidden', 'forbidden', 'r'],
    ['["error", "not_found", "r"]', 'not found', 'not_found', 'r'],
    ['["error", "not_acceptable", "r"]', 'not acceptable', 'not_acceptable', 'r'],
    ['["error", "missing_stub", "r"]', 'precondition failed', 'missing_stub', 'r'],
    ['["error", "bad_ctype", "r"]', 'unsupported type', 'bad_content_type', 'r'],
    ['["error", "mine", "r"]', 'failed', 'mine', 'r'],
    ['["fatal", "not_found", "r"]', 'not found', 'not_found', 'r'],
    ['{ error: "forbidden", reason: { body: "raw" } }', 'forbidden', 'forbidden', { body: 'raw' }],
  ])('that throws %s fails with it', async (thrown, kind, error, reasonValue) => {
    await expect(shown(functions, `function() { throw ${thrown} }`)).rejects.toMatchObject({ kind, error, reasonValue })
  })

  it.each([
    ['new TypeError("no")', 'function raised error: TypeError: no \nstacktrace: TypeError: no'],
    ['{ forbidden: "x" }', 'function raised error: {"forbidden":"x"} \nstacktrace: '],
    ['"text"', 'function raised error: text \nstacktrace: '],
    ['null', 'function raised error: null \nstacktrace: '],
  ])('that throws %s fails with a render error', async (thrown, reason) => {
    await expect(shown(functions, `function() { throw ${thrown} }`)).rejects.toMatchObject({
      kind: 'failed',
      error: 'render_error',
      reason: expect.stringContaining(reason),
    })
  })

  it('that throws reports the position in its own code, and nothing about the sandbox', async () => {
    const reason = await shown(functions, 'function() {\n  nosuch()\n}').catch((error: Error) => error.message)
    expect(reason).toMatch(/ReferenceError: nosuch is not defined\n {4}at .*<anonymous>:2:3\)?$/)
  })

  it.each([
    'Object.defineProperty(error, "stack", { get: function() { throw 1 } })',
    'error.stack = Symbol("stack")',
    'Error.prepareStackTrace = function() { throw 1 }',
  ])('that throws an error of which nothing can be read fails with a render error: %s', async (trick) => {
    const source = `function() { var error = new Error("x"); ${trick}; throw error }`
    await expect(shown(functions, source)).rejects.toMatchObject({
      error: 'render_error',
      reason: 'function raised error: Error: x \nstacktrace: ',
    })
  })

  it('that throws for a document that is not there says that', async () => {
    const source = 'function(doc) { return doc.title }'
    await expect(shown(functions, source, { document: null, request: { id: 'gone' } })).rejects.toMatchObject({
      kind: 'not found',
      error: 'not_found',
      reason: 'document not found',
    })
    await expect(shown(functions, source, { document: null, request: { id: null } })).rejects.toMatchObject({
      error: 'render_error',
    })
  })

  it('must be there', async () => {
    const call = { document: null, request: '{}' }
    for (const design of [designOf({}), designOf({ shows: {} }), designOf({ shows: { x: { y: 'function() {}' } } })]) {
      await expect(functions.show(design, 'x', call, run)).rejects.toMatchObject({
        kind: 'not found',
        error: 'not_found',
        reason: 'missing shows function x on design doc _design/test',
      })
    }
  })

  it('that does not compile reports it, also for a missing document', async () => {
    await expect(shown(functions, 'function(', { document: null, request: { id: 'x' } })).rejects.toMatchObject({
      error: 'compilation_error',
    })
  })
})

describe('an update', () => {
  const update = (source: string, document: object | null = { _id: 'a' }, request: object = {}) =>
    functions.update(
      designOf({ updates: { test: source } }),
      'test',
      { document: JSON.stringify(document), request: JSON.stringify(request) },
      run,
    )

  it('gives a document and a response', async () => {
    const source = 'function(doc, req) { doc.n = req.n; return [doc, "done"] }'
    expect(await update(source, { _id: 'a' }, { n: [1] })).toEqual({
      document: '{"_id":"a","n":[1]}',
      response: { body: 'done' },
    })
    expect(await update('function() { return [{ _id: "ü\\u0002" }, { code: 202 }] }', null)).toEqual({
      document: '{"_id":"ü\\u0002"}',
      response: { code: 202 },
    })
  })

  it.each(['null', 'false', 'undefined', '"text"', '[1]', '0'])('writes nothing for %s', async (value) => {
    expect(await update(`function() { return [${value}, ""] }`)).toEqual({ document: null, response: { body: '' } })
  })

  it.each(['[{}, 1]', '[{}, null]', '[{}, []]', '[{}]', '[]', '{}', 'null', '"text"', '[{}, "", 1]'])(
    'may not return %s',
    async (value) => {
      await expect(update(`function() { return ${value} }`)).rejects.toMatchObject({
        kind: 'failed',
        error: 'render_error',
        reason: 'undefined response from update function',
      })
    },
  )

  it('fails as shows do', async () => {
    await expect(update('function() { throw ["error", "forbidden", "x"] }')).rejects.toMatchObject({
      kind: 'forbidden',
    })
    await expect(update('function(doc) { doc.a.b = 1 }', null, { id: 'x' })).rejects.toMatchObject({
      error: 'render_error',
    })
    await expect(functions.update(designOf({}), 'x', { document: null, request: '{}' }, run)).rejects.toMatchObject({
      reason: 'missing updates function x on design doc _design/test',
    })
  })
})
