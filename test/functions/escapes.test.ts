import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import { sandboxPids } from './sandbox-pids.ts'
import { designOf, emittedBy, inside, mapsOf, run, shown, testFunctions } from './test-functions.ts'

const functions = testFunctions({ processLimit: 1 })
afterAll(() => functions.close())

describe('constructors lead to nothing but the sandbox', () => {
  it.each([
    'this.constructor.constructor("return typeof process")()',
    'emit.constructor("return typeof process")()',
    'log.constructor("return typeof require.resolve")()',
    'sum.constructor("return typeof process")()',
    'getRow.constructor.constructor("return typeof process")()',
    '(function() { return arguments.callee.constructor("return typeof process")() })()',
    '(async function() {}).constructor("return 1").toString().length > 0 ? typeof process : 0',
    'Object.getPrototypeOf(function*() {}).constructor("yield typeof process")().next().value',
    '(0, eval)("typeof process")',
    'new Function("return typeof globalThis.process")()',
    'Reflect.construct(Function, ["return typeof process"])()',
    'typeof this.process',
    'typeof globalThis.$0',
  ])('%s', async (expression) => {
    expect(await inside(functions, expression)).toBe('undefined')
  })

  it('also from what errors hold', async () => {
    const deep = `(function() {
      try { (function f() { f() })() } catch (e) { return e.constructor.constructor("return typeof process")() }
    })()`
    expect(await inside(functions, deep)).toBe('undefined')
    const thrown =
      '(function() { try { send(null) } catch (e) { return e.constructor.constructor("return typeof process")() } })()'
    expect(await inside(functions, thrown)).toBe('undefined')
    const prepared = `(function() {
      Error.prepareStackTrace = function(e, frames) {
        // All that is in sight is this function itself.
        return frames.filter(function(frame) { return frame.getFunction() && !/in sight/.test(frame.getFunction()) }).length
      };
      return new Error().stack
    })()`
    expect(await inside(functions, prepared)).toBe(0)
    // Who called the function that is called here is nobody that can be seen.
    expect(await inside(functions, '(function f() { return f.caller.caller })()')).toBe(null)
  })

  it('no module of the host can be imported', async () => {
    const source = 'function() { import("node:fs").then(function() { found = 1 }, function() {}); return typeof found }'
    expect(await shown(functions, source)).toEqual({ body: 'undefined' })
    expect(await shown(functions, source)).toEqual({ body: 'undefined' })
  })
})

describe('what one design document does to the language stays with it', () => {
  it('prototypes', async () => {
    const polluting = `function() {
      Object.prototype.polluted = 1; Array.prototype.map = null; String.prototype.split = null
      JSON.stringify = function() { return "spoiled" }; JSON.parse = null; Array.prototype.join = null
      Object.prototype.toJSON = function() { return "spoiled" }; globalThis.left = 1
      Array.prototype[Symbol.iterator] = null; Function.prototype.call = null
      return "done"
    }`
    await shown(functions, polluting).catch(() => {})
    expect(await inside(functions, '[typeof {}.polluted, typeof [].map, typeof left, JSON.stringify([1])]')).toEqual([
      'undefined',
      'function',
      'undefined',
      '[1]',
    ])
  })

  it('globals, also for the same functions of another owner', async () => {
    const design = designOf({
      shows: { test: 'function() { n = (typeof n === "undefined" ? 0 : n) + 1; return "" + n }' },
    })
    const call = { document: null, request: '{}' }
    const counted = async (owner: string) => (await functions.show(design, 'test', call, { owner })).body
    expect([await counted('one'), await counted('one'), await counted('two')]).toEqual(['1', '2', '1'])
  })

  it('and its own results are at most its own loss', async () => {
    const pollutions = [
      'Array.prototype.toJSON = function() { return 1 }',
      'Object.prototype.toJSON = function() { return undefined }',
      'Object.defineProperty(Array.prototype, 0, { set: function() {}, get: function() { return 7 } })',
      'String.prototype.toString = null; Array.prototype.length = 5',
      'JSON.stringify = function() { return "\\u0001\\u0003\\u0003" }',
      'Date.now = function() { return NaN }',
      'Object.prototype.id = "x"; Object.prototype.isFatal = true; Object.prototype.chunks = 5',
      'Array.prototype[Symbol.iterator] = function() { throw 1 }',
    ]
    for (const pollution of pollutions) {
      const rows = await emittedBy(
        functions,
        mapsOf(`function(doc) { ${pollution}; emit(doc.n, [1]) }`),
        { n: 1 },
        { n: 2 },
      ).catch((error: unknown) => error)
      if (!Array.isArray(rows)) expect(rows).toMatchObject({ kind: 'failed' })
      const answer = await shown(functions, `function() { ${pollution}; return { json: [1] } }`).catch(
        (error: unknown) => error,
      )
      expect(answer).toBeTypeOf('object')
    }
    expect(await inside(functions, '1 + 1')).toBe(2)
  })
})

it('a process has its pipes, its own descriptors, and no environment', async () => {
  await inside(functions, '1')
  const [pid] = sandboxPids()
  expect(pid).toBeDefined()
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .filter((entry) => entry !== '')
  expect(environment.filter((entry) => !entry.startsWith('TZ='))).toEqual([])
  const files = readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${descriptor}`)]
    } catch {
      return []
    }
  })
  expect(files.filter((file) => file.startsWith('/') && !file.startsWith('/dev/'))).toEqual([])
})

it('a big design document does no harm', async () => {
  const design = designOf({
    shows: { test: 'function() { return "" + this.text.length }' },
    text: 'x'.repeat(5_000_000),
  })
  expect(await functions.show(design, 'test', { document: null, request: '{}' }, run)).toEqual({ body: '5000000' })
})
