import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseRules, rewrite } from '../../../src/http/design-functions/rewrite-resource.ts'

const BASE = ['db', '_design', 'app']

/** Where a rule leads below the design document; undefined when it is not for the request. */
function served(rule: object, target: string, method = 'GET'): string | undefined {
  const [path = '', query = ''] = target.split('?')
  const url = rewrite(parseRules([rule], { isSecure: true }), {
    base: BASE,
    method,
    path: path.split('/').filter((segment) => segment !== ''),
    query: new Map(new URLSearchParams(query)),
  })
  return url?.replace(/^\/db\/_design\/app\//, '')
}

describe('a rewrite rule', () => {
  it.each([
    [{ from: 'list', to: '_view/all' }, '/list?limit=5', '_view/all?limit=5'],
    [{ from: 'img/*', to: 'files/*' }, '/img/2013/logo.png', 'files/2013/logo.png'],
    [{ from: 'item/:id', to: '_show/item/:id' }, '/item/7', '_show/item/7?id=7'],
    [{ from: 'tag/:t', to: '_view/tags', query: { label: ':t' } }, '/tag/red', '_view/tags?t=red&label=red'],
    [{ from: 'open', to: '_show/item/:id' }, '/open?id=7', '_show/item/7?id=7'],
    [
      { from: 'on/:day', to: '_view/log', query: { key: [':day', 1] } },
      '/on/mon',
      `_view/log?day=mon&key=${encodeURIComponent('["mon",1]')}`,
    ],
    [{ from: 'raw/*', to: '../../*' }, '/raw/doc1', '/db/doc1'],
    [{ from: '', to: 'index.html' }, '/', 'index.html'],
    [{ from: '/', to: 'index.html' }, '', 'index.html'],
    [{ from: '/a', to: '/b' }, '/a', 'b'],
    [{ to: 'x/*' }, '/a/b', 'x/a/b'],
  ])('%j rewrites %s to %s', (rule, target, expected) => {
    expect(served(rule, target)).toBe(expected)
  })

  it.each([
    [{ from: '*', to: 'x' }, '/'],
    [{ from: 'a/*', to: 'x' }, '/a'],
    [{ from: 'a', to: 'x' }, '/a/b'],
    [{ from: 'a/b', to: 'x' }, '/a'],
    [{ from: ':a', to: 'x' }, '/'],
    [{ from: '', to: 'x' }, '/a'],
    [{ from: 'A', to: 'x' }, '/a'],
  ])('%j does not match %s', (rule, target) => {
    expect(served(rule, target)).toBeUndefined()
  })

  it('takes a star that is not the last for any one segment, and binds nothing', () => {
    const rule = { from: 'a/*/c', to: 'x', query: { v: '*' } }
    expect(served(rule, '/a/b/c')).toBe('x?v=*')
    expect(served(rule, '/a/b/b/c')).toBeUndefined()
  })

  it('binds the star to the first of the segments it takes', () => {
    expect(served({ from: 'a/*', to: 'x', query: { v: '*' } }, '/a/b/c')).toBe('x?v=b')
  })

  it('drops what follows a star in its target', () => {
    expect(served({ from: '*', to: 'x/*/y' }, '/a/b')).toBe('x/a/b')
  })

  it('puts in what the request asks for, the path before the query', () => {
    expect(served({ from: ':a', to: 'x/:a/:b' }, '/1?a=2&b=3')).toBe('x/1/3?a=1&b=3')
    expect(served({ from: ':a', to: 'x/:nosuch' }, '/1')).toBe('x/undefined?a=1')
  })

  it('overrides the query of the request with its own', () => {
    expect(served({ from: 'a', to: 'x', query: { limit: '1' } }, '/a?limit=5&skip=2')).toBe('x?limit=1&skip=2')
  })

  it('leaves a variable that nothing is known of as it is', () => {
    expect(served({ from: 'a', to: 'x', query: { q: ':nosuch', l: [':nosuch', 'b'] } }, '/a')).toBe(
      `x?q=${encodeURIComponent(':nosuch')}&l=${encodeURIComponent('[":nosuch","b"]')}`,
    )
  })

  it('writes values that are not strings as JSON, and strings of JSON parameters too', () => {
    const query = { startkey: 'a', endkey: ['b', {}], reduce: false, limit: 3, nested: { k: [':v'] }, plain: 'a' }
    const parameters = new URLSearchParams(served({ from: ':v', to: 'x', query }, '/1')?.split('?')[1])
    expect(Object.fromEntries(parameters)).toEqual({
      v: '1',
      startkey: '"a"',
      endkey: '["b",{}]',
      reduce: 'false',
      limit: '3',
      nested: '{"k":[":v"]}',
      plain: 'a',
    })
  })

  it('reads the JSON parameters of a request, and writes them again', () => {
    const target = `/a?key=${encodeURIComponent('["x"]')}`
    const parameters = new URLSearchParams(served({ from: 'a', to: 'x', query: { other: ':key' } }, target)?.slice(2))
    expect(Object.fromEntries(parameters)).toEqual({ key: '["x"]', other: '["x"]' })
    expect(() => served({ from: 'a', to: 'x' }, '/a?key=nojson')).toThrow('invalid_json')
  })

  it.each([
    ['int', '7', '7'],
    ['int', '-7', '-7'],
    ['int', 'seven', '"seven"'],
    ['bool', 'TRUE', 'true'],
    ['bool', 'false', 'false'],
    ['bool', 'yes', '"yes"'],
    [undefined, '7', '"7"'],
  ])('with the format %s inserts %s into a query as %s', (format, text, expected) => {
    const rule = { from: ':v', to: 'x', query: { key: ':v' }, formats: format === undefined ? {} : { v: format } }
    expect(served(rule, `/${text}`)).toBe(`x?v=${text}&key=${encodeURIComponent(expected)}`)
  })

  it('applies formats in lists, and not in paths', () => {
    const rule = { from: ':v', to: 'x/:v', query: { key: [':v'] }, formats: { v: 'int' } }
    expect(served(rule, '/007')).toBe(`x/007?v=007&key=${encodeURIComponent('[7]')}`)
  })

  it('is for one method, or for all', () => {
    expect(served({ from: 'a', to: 'x', method: 'PUT' }, '/a', 'PUT')).toBe('x')
    expect(served({ from: 'a', to: 'x', method: 'PUT' }, '/a', 'GET')).toBeUndefined()
    expect(served({ from: 'a', to: 'x', method: 'get' }, '/a', 'GET')).toBeUndefined()
    expect(served({ from: 'a', to: 'x', method: '*' }, '/a', 'COPY')).toBe('x')
  })

  it('may use dot segments; the request may not', () => {
    expect(served({ from: 'a', to: './b/../c' }, '/a')).toBe('c')
    expect(served({ from: 'a/*', to: 'b/*' }, '/a/../../../_config')).toBe('b/%2E%2E/%2E%2E/%2E%2E/_config')
    expect(served({ from: ':v', to: '../../:v' }, '/..')).toBe('/db/%2E%2E?v=..')
  })

  it('never leaves the database, whatever the request is', () => {
    const segment = fc.oneof(fc.constantFrom('.', '..', '%2e%2e', '/', '*', ':a'), fc.string())
    const rules = parseRules([{ from: '*', to: '../../*' }], { isSecure: true })
    fc.assert(
      fc.property(fc.array(segment, { minLength: 1 }), (path) => {
        const url = rewrite(rules, { base: BASE, method: 'GET', path, query: new Map() }) ?? ''
        const [, database, ...rest] = url.split('/')
        expect(database).toBe('db')
        expect(rest).not.toContain('..')
      }),
    )
  })
})

describe('rewrite rules', () => {
  const parse = (rules: unknown, isSecure = true) => parseRules(rules, { isSecure })

  it('are tried in their order', () => {
    const rules = parse([{ from: 'a', to: 'first' }, 'no rule', null, { from: '*', to: 'second' }])
    const request = { base: [], method: 'GET', query: new Map<string, string>() }
    expect(rewrite(rules, { ...request, path: ['a'] })).toBe('/first')
    expect(rewrite(rules, { ...request, path: ['b'] })).toBe('/second')
  })

  it.each([
    [undefined, 'rewrite_error: Invalid path.'],
    ['function () {}', 'rewrite_error: Rewrite rules are a String. They must be a JSON Array.'],
    [[{ from: 'a', to: 'x' }, { from: 'b' }], 'error: invalid_rewrite_target'],
    [[{ from: 'a', to: '../../../x' }], 'insecure_rewrite_rule: too many ../.. segments'],
    [[{ from: 'a', to: '../x/../y/../z' }], 'insecure_rewrite_rule: too many ../.. segments'],
    [[{ from: '../../../a', to: 'x' }], 'insecure_rewrite_rule: too many ../.. segments'],
  ])('%j are refused', (rules, message) => {
    expect(() => parse(rules)).toThrow(message)
  })

  it('may lead out of the database where that is allowed', () => {
    const rules = parse([{ from: 'a', to: '../../../_all_dbs' }], false)
    expect(rewrite(rules, { base: BASE, method: 'GET', path: ['a'], query: new Map() })).toBe('/_all_dbs')
  })
})
