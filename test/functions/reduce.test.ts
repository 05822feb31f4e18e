import { afterAll, describe, expect, it } from 'vitest'
import { run, testFunctions } from './test-functions.ts'

const functions = testFunctions()
afterAll(() => functions.close())

const row = (key: unknown, id: string, value: unknown) => ({
  key: JSON.stringify(key),
  id,
  value: JSON.stringify(value),
})

const program = (source: string) => ({ language: 'javascript', source })
const reduce = (source: string, ...groups: ReturnType<typeof row>[][]) => functions.reduce(program(source), groups, run)
const rereduce = (source: string, ...groups: string[][]) => functions.rereduce(program(source), groups, run)

it('gets keys with ids, values, and whether they were reduced before', async () => {
  const source = 'function(keys, values, rereduce) { return [keys, values, rereduce] }'
  expect(await reduce(source, [row('k', 'i', 1), row(['ü'], 'j"', { a: 1 })])).toEqual([
    '[[["k","i"],[["ü"],"j\\""]],[1,{"a":1}],false]',
  ])
  expect(await rereduce(source, ['1', '[2]'])).toEqual(['[null,[1,[2]],true]'])
})

it('gives one result a group', async () => {
  const groups = Array.from({ length: 500 }, (_, n) => [row(n, 'a', n), row(n, 'b', 1)])
  expect(await reduce('function(keys, values) { return sum(values) }', ...groups)).toEqual(
    groups.map((_, n) => String(n + 1)),
  )
  expect(await rereduce('function(keys, values) { return sum(values) }', ['1', '2'], ['3'])).toEqual(['3', '3'])
})

it('takes results through JSON', async () => {
  expect(await rereduce('function() {}', ['1'])).toEqual(['null'])
  expect(await rereduce('function() { return NaN }', ['1'])).toEqual(['null'])
  expect(await rereduce('function() { return "\\u0002" }', ['1'])).toEqual(['"\\u0002"'])
})

describe('an exception', () => {
  it('is logged, and the result is null', async () => {
    functions.lines.length = 0
    const source = 'function(keys, values) { if (values[0] === 1) throw new Error("no"); return 2 }'
    expect(await rereduce(source, ['0'], ['1'], ['2'])).toEqual(['2', 'null', '2'])
    expect(functions.lines).toEqual(['function raised exception Error: no'])
  })

  it('may be fatal', async () => {
    await expect(rereduce('function() { throw "fatal_error" }', ['1'])).rejects.toMatchObject({
      kind: 'failed',
      error: 'map_runtime_error',
      reason: "function raised 'fatal_error'",
    })
    await expect(rereduce('function() { throw ["fatal", "a", "b"] }', ['1'])).rejects.toMatchObject({
      kind: 'failed',
      error: 'a',
      reason: 'b',
    })
  })
})

describe('a result must shrink', () => {
  const source = 'function(keys, values) { return values.join("") }'
  /** What the reference would send: name, sources, rows. */
  const command = (...values: string[]) => JSON.stringify(['rereduce', [source], values])

  it('when it is longer than 200 characters, and more than half of its input', async () => {
    const short = 'x'.repeat(100)
    expect(await rereduce(source, [JSON.stringify(short)])).toEqual([JSON.stringify(short)])
    const values = ['a'.repeat(150), 'b'.repeat(150)]
    const output = `["${values.join('')}"]`
    expect(2 * output.length).toBeGreaterThan(command(...values).length)
    await expect(
      rereduce(
        source,
        values.map((value) => JSON.stringify(value)),
      ),
    ).rejects.toMatchObject({
      kind: 'failed',
      error: 'reduce_overflow_error',
      reason: `Reduce output must shrink more rapidly: Current output: '${output.slice(0, 100)}'... (first 100 of ${output.length} bytes)`,
    })
  })

  it('to half of its input at most', async () => {
    const half = 'function(keys, values) { return values[0].slice(0, values[1]) }'
    const text = 'x'.repeat(1000)
    const overhead = JSON.stringify(['rereduce', [half], [text, 100]]).length
    const longest = Math.floor(overhead / 2) - '[""]'.length
    const call = (length: number) => rereduce(half, [JSON.stringify(text), String(length)])
    expect(await call(longest)).toEqual([`"${'x'.repeat(longest)}"`])
    await expect(call(longest + 1)).rejects.toMatchObject({ error: 'reduce_overflow_error' })
  })

  it('unless the configuration says otherwise', async () => {
    functions.change({ reduceLimit: false })
    const text = JSON.stringify('x'.repeat(1000))
    expect(await rereduce(source, [text])).toEqual([text])
    functions.change({ reduceLimit: true })
  })
})
