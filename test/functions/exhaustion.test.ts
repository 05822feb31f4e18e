/** Functions that take all they can get: each gets its error, and others continue unharmed. */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import type { Functions } from '../../src/functions/functions.ts'
import { designOf, emittedBy, functionsOfTest, mapsOf, run, shown, testFunctions } from './test-functions.ts'

const functions = testFunctions({ timeoutMs: 800, processLimit: 8, isolateMemoryMb: 64, processMemoryMb: 400 })
/** What fills up is full sooner. */
const small = testFunctions({ timeoutMs: 800, processLimit: 8, isolateMemoryMb: 24, processMemoryMb: 400 })
afterAll(() => Promise.all([functions.close(), small.close()]))

const timedOut = { kind: 'failed', error: 'os_process_error', reason: 'OS process timed out.' }
const ended = { kind: 'failed', error: 'os_process_error' }

/** Calls of others while something goes wrong. */
async function othersGoOn(trouble: Promise<unknown>, used: Functions = functions): Promise<void> {
  let isOver = false
  const over = () => {
    isOver = true
  }
  trouble.then(over, over)
  const design = designOf({ filters: { even: 'function(doc) { return doc.n % 2 === 0 }' } })
  do {
    const passed = await used.filter(design, 'even', ['{"n":1}', '{"n":2}'], '{}', { owner: 'other' })
    expect(passed).toEqual([false, true])
    // Leaves the processors to the trouble.
    await pause(20)
  } while (!isOver)
}

describe('a call ends', () => {
  it.concurrent.each([
    ['an endless loop', 'while (true);'],
    ['an endless loop that catches all', 'while (true) try { while (true); } catch (e) {} finally { continue }'],
    ['a catastrophic expression', 'return /^(a+)+$/.test("a".repeat(50) + "b") + ""'],
    ['an endless loop of promises', '(function f() { return Promise.resolve().then(f) })()'],
    ['an async loop', '(async function() { while (true) await 0 })(); while (true);'],
    ['a getter without end', 'return { get json() { while (true); } }'],
    ['a toJSON without end', 'return { json: { toJSON: function() { while (true); } } }'],
    ['a proxy without end', 'return new Proxy({}, { ownKeys: function() { while (true); } })'],
    ['sorting without end', '[3, 2, 1].sort(function() { while (true); })'],
  ])('in time: %s', async (_, body) => {
    const trouble = shown(functions, `function() { ${body} }`)
    await Promise.all([othersGoOn(trouble), expect(trouble).rejects.toMatchObject(timedOut)])
  })

  it.each([
    ['arrays', 'var a = []; while (true) a.push(new Array(1000).fill(a.length))'],
    ['one array', 'new Array(1e9).fill(0)'],
    ['text', 'var s = "x"; while (true) s = [s, s].join("")'],
    ['buffers', 'var a = []; while (true) a.push(new Uint8Array(1e7).fill(1))'],
    ['typed arrays at once', 'var a = []; for (var i = 0; i < 100; i++) a.push(new Float64Array(1e8).fill(i))'],
    ['functions', 'var a = []; while (true) a.push(new Function("return " + a.length)), a[a.length - 1]()'],
  ])('before memory does: %s', async (_, body) => {
    const trouble = shown(small, `function() { ${body} }`).then(
      () => 'answered',
      (error: { error: string }) => error.error,
    )
    await othersGoOn(trouble, small)
    // Some are refused by the language itself.
    expect(['os_process_error', 'render_error']).toContain(await trouble)
  })

  // What lies outside of an isolate's heap, or grows faster than its limit is looked at.
  it.each([
    ['long texts', 'var a = []; while (true) a.push("x".padEnd(4e8, "ab").indexOf("ba", 3e8))'],
    ['what JSON makes', 'return JSON.parse("[" + "1,".repeat(1e8) + "1]").length + ""'],
  ])('when its process takes more than it may: %s', async (_, body) => {
    const patient = functionsOfTest({ timeoutMs: 15_000, isolateMemoryMb: 64, processMemoryMb: 300 })
    const trouble = shown(patient, `function() { ${body} }`)
    await Promise.all([
      othersGoOn(trouble, patient),
      expect(trouble).rejects.toMatchObject({ ...ended, reason: '{exit_status,137}' }),
    ])
    expect(patient.causes).toEqual(['memory'])
  })

  it.each([
    ['recursion', '(function f() { f() })()'],
    ['recursion through JSON', 'var o = {}; for (var i = 0; i < 1e6; i++) o = { o: o }; JSON.stringify(o)'],
    ['recursion through toString', 'var o = { toString: function() { return "" + o } }; "" + o'],
  ])('with an error of the language: %s', async (_, body) => {
    await expect(shown(functions, `function() { ${body} }`)).rejects.toMatchObject({
      error: 'render_error',
      reason: expect.stringContaining('RangeError'),
    })
  })
})

describe('a map function', () => {
  it('that emits without end is ended before memory is', async () => {
    const trouble = emittedBy(functions, mapsOf('function(doc) { while (true) emit("x".repeat(1000), doc) }'), {})
    await Promise.all([othersGoOn(trouble), expect(trouble).rejects.toMatchObject(ended)])
  })

  it('that emits without end and catches all is ended too', async () => {
    const source = 'function(doc) { while (true) try { emit("x".repeat(10000)) } catch (e) {} }'
    const trouble = emittedBy(functions, mapsOf(source), {})
    await Promise.all([othersGoOn(trouble), expect(trouble).rejects.toMatchObject(ended)])
  })

  it('that takes its time with one document of many is ended', async () => {
    const source = 'function(doc) { while (doc.n === 50); emit(doc.n) }'
    const documents = Array.from({ length: 100 }, (_, n) => ({ n }))
    await expect(emittedBy(functions, mapsOf(source), ...documents)).rejects.toMatchObject(timedOut)
  })

  it('that breaks its isolate ends alone', async () => {
    const source = 'function(doc) { var a = []; while (true) a.push({ a: a.length }) }'
    await expect(emittedBy(small, mapsOf(source), {})).rejects.toMatchObject(ended)
    expect(await emittedBy(small, mapsOf('function(doc) { emit(1) }'), {})).toEqual([[1, null]])
  })
})

describe('log', () => {
  it('restarts the clock with each line', async () => {
    const source = `function() {
      for (var i = 0; i < 6; i++) { var end = Date.now() + 300; while (Date.now() < end); log("line " + i) }
      return "done"
    }`
    expect(await shown(functions, source)).toEqual({ body: 'done' })
  })

  it('does not run for ever', async () => {
    functions.lines.length = 0
    await expect(shown(functions, 'function() { while (true) log("x".repeat(1000)) }')).rejects.toMatchObject({
      kind: 'failed',
      error: 'render_error',
      reason: expect.stringContaining('logged too much'),
    })
    expect(functions.lines.join('').length).toBeLessThan(1.1 * 1024 * 1024)
    await expect(
      shown(functions, 'function() { while (true) try { log("x".repeat(1000)) } catch (e) {} }'),
    ).rejects.toMatchObject(timedOut)
  })

  it('cuts lines that are too long', async () => {
    functions.lines.length = 0
    await shown(functions, 'function() { log("x".repeat(100000)); return "" }')
    expect(functions.lines[0]?.length).toBe(16 * 1024)
  })
})

it('a reply that is huge is answered or refused, not the end', async () => {
  const huge = shown(functions, 'function() { return "x".repeat(2e7) }').then(
    ({ body }) => String(body).length,
    (error: { error: string }) => error.error,
  )
  expect([2e7, 'os_process_error']).toContain(await huge)
  await expect(shown(functions, 'function() { while (true) send("x".repeat(1e6)) }')).rejects.toMatchObject({
    error: 'render_error',
  })
})

it('a fatal error costs the process, and no more', async () => {
  await expect(shown(functions, 'function() { throw ["fatal", "x", "y"] }')).rejects.toMatchObject({ error: 'x' })
  expect(await shown(functions, 'function() { return "ok" }')).toEqual({ body: 'ok' })
  expect(await functions.rereduce({ language: 'javascript', source: 'function() { return 1 }' }, [['1']], run)).toEqual(
    ['1'],
  )
})
