import { afterAll, describe, expect, it } from 'vitest'
import { shown, testFunctions } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

const provider = (...keys: string[]) =>
  `function() { ${keys.map((key) => `provides("${key}", function() { return "as ${key}" })`).join(';')} }`

const accepting = (accept: string) => ({ request: { headers: { Accept: accept } } })

const typed = (type: string, body: string) => ({ headers: { 'Content-Type': type }, body })

describe('the answer is chosen by the Accept header', () => {
  it.each([
    ['text/html', ['json', 'html'], 'text/html; charset=utf-8', 'as html'],
    ['application/json', ['json', 'html'], 'application/json', 'as json'],
    ['text/x-json', ['json', 'html'], 'text/x-json', 'as json'],
    ['text/html,application/json;q=0.9', ['json', 'html'], 'text/html; charset=utf-8', 'as html'],
    ['text/html;q=0.1,application/json', ['html', 'json'], 'application/json', 'as json'],
    ['*/*', ['xml', 'html'], 'application/xml', 'as xml'],
    ['*/*', ['text'], 'text/plain; charset=utf-8', 'as text'],
    ['application/*', ['html', 'xml'], 'application/x-xml', 'as xml'],
    ['text/*;q=0.3, text/html;q=0.2', ['html', 'csv'], 'text/html; charset=utf-8', 'as html'],
    ['text/plain; charset=utf-8', ['html', 'text'], 'text/plain; charset=utf-8', 'as text'],
    ['TEXT/HTML', ['json', 'html'], 'text/html; charset=utf-8', 'as html'],
    ['image/png, */*;q=0.1', ['json'], 'application/json', 'as json'],
    ['image/png', ['all'], '*/*', 'as all'],
  ])('%s of %j', async (accept, keys, type, body) => {
    expect(await shown(functions, provider(...keys), accepting(accept))).toEqual(typed(type, body))
  })

  it.each(['image/png', 'text/html;q=0', ''])('and is not there for %j', async (accept) => {
    const answer = shown(functions, provider('html', 'json'), accepting(accept))
    if (accept === '') expect(await answer).toEqual(typed('text/html; charset=utf-8', 'as html'))
    else {
      await expect(answer).rejects.toMatchObject({
        kind: 'not acceptable',
        error: 'not_acceptable',
        reason: `Content-Type ${accept} not supported, try one of: text/html; charset=utf-8, application/json, text/x-json`,
      })
    }
  })
})

it('the first one answers when nothing is said', async () => {
  expect(await shown(functions, provider('json', 'html'))).toEqual(typed('application/json', 'as json'))
})

describe('the answer is chosen by the format', () => {
  const formatted = (format: string) => ({ request: { query: { format }, headers: { Accept: 'text/html' } } })

  it('whatever is accepted', async () => {
    expect(await shown(functions, provider('html', 'xml'), formatted('xml'))).toEqual(
      typed('application/xml', 'as xml'),
    )
  })

  it('and is not there when it is not provided', async () => {
    await expect(shown(functions, provider('html'), formatted('json'))).rejects.toMatchObject({
      kind: 'not acceptable',
      error: 'not_acceptable',
      reason: 'Content-Type json not supported, try one of: text/html; charset=utf-8',
    })
    await expect(shown(functions, provider('html'), formatted('unheard'))).rejects.toMatchObject({
      kind: 'failed',
      error: 'render_error',
    })
  })
})

describe('registerType', () => {
  it('adds and replaces keys, for one call', async () => {
    const source = `function(doc, req) {
      if (req.register) { registerType("foo", "application/foo", "x-foo"); registerType("foo", "a/foo", "b/foo") }
      provides("foo", function() { return "foo" })
    }`
    const request = { register: true, headers: { Accept: 'b/foo' } }
    expect(await shown(functions, source, { request })).toEqual(typed('b/foo', 'foo'))
    await expect(shown(functions, source, accepting('b/foo'))).rejects.toMatchObject({ kind: 'not acceptable' })
  })
})

describe('the answer', () => {
  it('has the design document as this', async () => {
    expect(await shown(functions, 'function() { provides("text", function() { return this._id }) }')).toMatchObject({
      body: '_design/test',
    })
  })

  it('comes behind what was sent and returned before', async () => {
    const source = `function() {
      send("a"); provides("text", function() { send("c"); return "d" }); return "b"
    }`
    expect(await shown(functions, source)).toEqual(typed('text/plain; charset=utf-8', 'abcd'))
  })

  it('may be a response, whose members win', async () => {
    const source = (answer: string) => `function() {
      provides("json", function() { return ${answer} }); return { code: 201, headers: { A: "a", B: "a" } }
    }`
    expect(await shown(functions, source('{ code: 202, headers: { B: "b" }, json: { x: 1 } }'))).toEqual({
      code: 202,
      headers: { 'Content-Type': 'application/json', A: 'a', B: 'b' },
      json: { x: 1 },
    })
    expect(await shown(functions, source('{ headers: { "content-type": "x/y" }, base64: "YQ==" }'))).toEqual({
      code: 201,
      headers: { A: 'a', B: 'a', 'content-type': 'x/y' },
      base64: 'YQ==',
    })
  })
})
