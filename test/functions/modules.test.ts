import { afterAll, describe, expect, it } from 'vitest'
import { designOf, emittedBy, mapsOf, run, testFunctions, withLibrary } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

/** What a show returns that may use the modules. */
async function shownWith(modules: object, body: string): Promise<unknown> {
  const design = designOf({ ...modules, shows: { test: `function(doc, req) { ${body} }` } })
  const { body: text } = await functions.show(design, 'test', { document: '{}', request: '{}' }, run)
  return text
}

describe('require', () => {
  it('runs a text of the design document as a module', async () => {
    expect(await shownWith({ lib: { a: 'exports.x = 7' } }, 'return "" + require("lib/a").x')).toBe('7')
    expect(await shownWith({ top: 'exports.x = 8' }, 'return "" + require("top").x')).toBe('8')
    expect(await shownWith({ a: { b: { c: 'exports.x = 9 // end' } } }, 'return "" + require("a/b/c").x')).toBe('9')
  })

  it('gives what module.exports is in the end', async () => {
    expect(await shownWith({ a: 'module.exports = function() { return "f" }' }, 'return require("a")()')).toBe('f')
    expect(await shownWith({ a: 'exports = { x: 1 }' }, 'return toJSON(require("a"))')).toBe('{}')
  })

  it('passes a module its own id', async () => {
    const source = 'exports.me = [module.id, module.current.length, typeof module.parent, typeof require]'
    const told = await shownWith({ lib: { a: source } }, 'return toJSON(require("lib/./a").me)')
    expect(told).toBe(JSON.stringify(['lib/a', source.length, 'object', 'function']))
  })

  it('finds siblings and those above', async () => {
    const lib = {
      a: 'exports.x = require("./b").x + require("./deep/c").x',
      b: 'exports.x = "b"',
      deep: { c: 'exports.x = "c" + require("../b").x + require("./../deep/d").x', d: 'exports.x = "d"' },
    }
    expect(await shownWith({ code: { lib } }, 'return require("code/lib/a").x')).toBe('bcbd')
  })

  it('runs a module once', async () => {
    const lib = { count: 'count = (typeof count === "undefined" ? 0 : count) + 1; exports.n = count' }
    const body =
      'return "" + require("lib/count").n + require("lib/./count").n + (require("lib/count") === require("lib/count"))'
    expect(await shownWith({ lib }, body)).toBe('11true')
  })

  it('gives an empty object for a module that is still loading', async () => {
    const lib = {
      a: 'exports.early = 1; exports.b = require("./b"); exports.late = 1',
      b: 'exports.seen = require("./a"); exports.keys = Object.keys(exports.seen)',
    }
    const body = 'var a = require("lib/a"); return toJSON([a.b.keys, Object.keys(a.b.seen), a.late])'
    expect(await shownWith({ lib }, body)).toBe('[[],[],1]')
  })

  it('lets modules see the globals of functions', async () => {
    expect(await shownWith({ a: 'exports.x = sum([1, 2]) + toJSON(isArray([]))' }, 'return require("a").x')).toBe(
      '3true',
    )
  })

  it.each([
    ['lib/none', 'invalid_require_path', 'Object has no property "none". {"a":"","n":{"o":1}}'],
    ['none', 'invalid_require_path', 'Object has no property "none". '],
    ['lib/toString', 'invalid_require_path', 'Object has no property "toString". '],
    ['lib/a/b', 'invalid_require_path', 'Object has no property "b". ""'],
    ['lib/n', 'invalid_require_path', 'Must require a JavaScript string, not: object'],
    ['lib/n/o', 'invalid_require_path', 'Must require a JavaScript string, not: number'],
    ['./lib/a', 'invalid_require_path', 'Object has no parent undefined'],
    ['../lib/a', 'invalid_require_path', 'Object has no parent undefined'],
    ['/lib/a', 'invalid_require_path', 'Object has no property "". '],
  ])('of %s fails', async (path, error, reason) => {
    const failing = shownWith({ lib: { a: '', n: { o: 1 } } }, `return require(${JSON.stringify(path)})`)
    await expect(failing).rejects.toMatchObject({ kind: 'failed', error, reason: expect.stringContaining(reason) })
  })

  it('does not lead to the root from below', async () => {
    const lib = { a: 'require("../top")', b: { c: 'require("../../top")' } }
    for (const path of ['lib/a', 'lib/b/c']) {
      await expect(shownWith({ lib, top: '' }, `return require("${path}")`)).rejects.toMatchObject({
        error: 'compilation_error',
        reason: expect.stringContaining('Object has no parent'),
      })
    }
  })

  it.each([
    ['does not compile', 'exports.x = ', 'SyntaxError'],
    ['throws', 'throw new TypeError("no")', 'TypeError: no'],
    ['needs what is not there', 'require("none")', 'Object has no property "none"'],
  ])('of a module that %s fails', async (_, source, detail) => {
    await expect(shownWith({ lib: { bad: source } }, 'return require("lib/bad")')).rejects.toMatchObject({
      kind: 'failed',
      error: 'compilation_error',
      reason: expect.stringMatching(new RegExp(`^Module require\\('lib/bad'\\) raised error .*${detail}`)),
    })
  })

  it('may be caught', async () => {
    expect(await shownWith({}, 'try { require("x") } catch (e) { return e.name }')).toBe('invalid_require_path')
  })
})

describe('in a map function', () => {
  it('only views.lib is there', async () => {
    const library = { a: 'exports.f = function(x) { return x * 2 }', b: { c: 'exports.g = require("../a").f' } }
    const program = withLibrary(
      library,
      'function(doc) { emit(require("views/lib/a").f(doc.n), require("views/lib/b/c").g(4)) }',
    )
    expect(await emittedBy(functions, program, { n: 3 })).toEqual([[6, 8]])
    for (const path of ['lib/a', 'a', 'shows/a', './a']) {
      const failing = withLibrary(library, `function(doc) { emit(1); require("${path}") }`)
      expect(await emittedBy(functions, failing, {})).toEqual([])
    }
  })

  it('a failure costs the document and is logged', async () => {
    functions.lines.length = 0
    expect(
      await emittedBy(functions, mapsOf('function(doc) { emit(1); require("views/lib/x") }'), { _id: 'd' }),
    ).toEqual([])
    expect(functions.lines.join()).toContain(
      'function raised exception invalid_require_path: Object has no property "x". null',
    )
    expect(functions.lines.join()).toContain('with doc._id d')
  })
})
