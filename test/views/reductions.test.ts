import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '../../src/encoding/json/json-value.ts'
import { StoredRow } from '../../src/views/layout/index-layout.ts'
import { namedReduction } from '../../src/views/reductions/named-reduction.ts'
import { encodeRow } from './encoded-row.ts'
import { LocalFunctions } from './local-functions.ts'

type Pair = readonly [key: JsonValue, value: JsonValue]

describe('_sum', () => {
  it.each<[what: string, values: JsonValue[], sum: JsonValue]>([
    ['numbers', [1, 2.5, -4], -0.5],
    ['lists place by place, the shorter ones padded', [[1, 2], [10], [100, 200, 300]], [111, 202, 300]],
    ['a number as a list of one', [1, [10, 20], 2], [13, 20]],
    [
      'objects member by member, in the order of their names',
      [
        { b: 1, a: 1 },
        { c: [1], b: 2 },
      ],
      { a: 1, b: 3, c: [1] },
    ],
    ['objects within objects', [{ a: { b: 1 } }, { a: { b: 2, c: 3 } }], { a: { b: 3, c: 3 } }],
    ['one object as it is', [{ b: 1, a: 1 }], { b: 1, a: 1 }],
  ])('adds %s', async (_, values, sum) => {
    expect(await reduced('_sum', valued(values))).toBe(JSON.stringify(sum))
  })

  it.each<[JsonValue[]]>([
    [['text']],
    [[[1, 'text']]],
    [[null]],
    [[1, { a: 1 }]],
    [[{ a: 1 }, [1]]],
    [[{ a: 'text' }]],
  ])('refuses %j', async (values) => {
    await expect(reduced('_sum', valued(values))).rejects.toMatchObject({
      kind: 'failed',
      error: 'invalid_value',
      reason: 'builtin _sum function requires map values to be numbers or lists of numbers',
    })
  })
})

it.each([
  '0',
  '7',
  '999999999999999',
  '-1',
  '1.5',
  '1e3',
  '9999999999999999',
  '9007199254740993',
  'null',
  '"1"',
  '[1]',
])('a value is read as a number without parsing it only where that is right: %s', (text) => {
  const line = encodeRow({ id: Buffer.from('"a"'), key: Buffer.from('1'), value: Buffer.from(text), exact: true })
  const block = Buffer.concat([Buffer.from('12'), line, Buffer.from('34')])
  const row = new StoredRow(block, 2, 2 + line.length)
  expect(row.value.toString()).toBe(text)
  expect(row.line.toString()).toBe(`{"id":"a","key":1,"value":${text}}`)
  if (/^\d{1,15}$/.test(text)) expect(row.plainNumber).toBe(JSON.parse(text))
  else expect(row.plainNumber).toBeUndefined()
})

describe('_stats', () => {
  it('computes statistics of numbers, in this order', async () => {
    expect(await reduced('_stats', valued([3, 1, 2]))).toBe('{"sum":6,"count":3,"min":1,"max":3,"sumsqr":14}')
  })

  it('takes lists element by element, and values that are statistics themselves', async () => {
    expect(
      await reduced(
        '_stats',
        valued([
          [1, 10],
          [2, 20],
        ]),
      ),
    ).toBe('[{"sum":3,"count":2,"min":1,"max":2,"sumsqr":5},{"sum":30,"count":2,"min":10,"max":20,"sumsqr":500}]')
    const counted = { sum: 10, count: 4, min: -1, max: 9, sumsqr: 90 }
    expect(await reduced('_stats', valued([counted, 2]))).toBe('{"sum":12,"count":5,"min":-1,"max":9,"sumsqr":94}')
  })

  it.each<[JsonValue[], reason: string]>([
    [['text'], 'builtin _stats function requires map values to be numbers'],
    [[[1], [1, 2]], 'builtin _stats function requires map values to be numbers'],
    [[['text']], 'non-numeric _stats input: "text"'],
    [[{ sum: 1 }], 'user _stats input missing required field count ({"sum":1})'],
    [[{ sum: 'x', count: 1, min: 1, max: 1, sumsqr: 1 }], 'non-numeric _stats input received for sum: "x"'],
  ])('refuses %j', async (values, reason) => {
    await expect(reduced('_stats', valued(values))).rejects.toMatchObject({ error: 'invalid_value', reason })
  })
})

describe('builtin reductions', () => {
  it('are recognized by the prefix of their name', async () => {
    for (const name of ['_sum', '_sum\n', '_summary']) expect(await reduced(name, valued([1, 2]))).toBe('3')
    for (const name of ['_count', '_counter']) expect(await reduced(name, valued(['a', null]))).toBe('2')
  })

  it('take the value of the first row, or of the last', async () => {
    expect(await reduced('_first', valued(['b', 'a', 'c']))).toBe('"b"')
    expect(await reduced('_last', valued(['b', 'a', 'c']))).toBe('"c"')
  })

  it('find the greatest and the least different values', async () => {
    const values: JsonValue[] = ['a', 3, 'b', 3, null, ['x'], 'a']
    expect(await reduced('_top_3', valued(values))).toBe('[["x"],"b","a"]')
    expect(await reduced('_bottom_2', valued(values))).toBe('[null,3]')
  })

  it.each(['_top_0', '_top_101', '_top_x', '_bottom_', '_top_1.5'])('refuse %s', async (name) => {
    await expect(reduced(name, valued([1]))).rejects.toMatchObject({
      kind: 'failed',
      error: 'invalid_value',
      reason: 'invalid rank reducer',
    })
  })

  it('refuse unknown names, and no name at all', async () => {
    await expect(reduced('_unknown', valued([1]))).rejects.toMatchObject({
      kind: 'failed',
      error: 'invalid_value',
      reason: '`_unknown` is not a supported reduce function.',
    })
    await expect(reduced('', valued([1]))).rejects.toMatchObject({ kind: 'not found', reason: 'missing function' })
  })

  it('count different keys, exactly while they are few and roughly when they are many', async () => {
    const keyed = (count: number, repeats: number): Pair[] =>
      Array.from({ length: count * repeats }, (_, i) => [`key ${i % count}`, null])
    expect(await reduced('_approx_count_distinct', keyed(200, 3))).toBe('200')
    const estimate = Number(await reduced('_approx_count_distinct', keyed(20_000, 1), 500))
    expect(Math.abs(estimate - 20_000)).toBeLessThan(0.06 * 20_000)
  })

  it('come to the same however the rows are cut into pieces', async () => {
    const names = ['_sum', '_count', '_stats', '_first', '_last', '_top_3', '_bottom_3', '_approx_count_distinct']
    const values = fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 40 })
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...names), values, fc.integer({ min: 1, max: 9 }), async (name, list, size) => {
        const rows = list.map((value): Pair => [value, value])
        expect(await reduced(name, rows, size)).toBe(await reduced(name, rows, rows.length))
      }),
      { numRuns: 200 },
    )
  })
})

function valued(values: readonly JsonValue[]): Pair[] {
  return values.map((value, i) => [i, value])
}

/** Reduces the rows in pieces of this size, and the reductions of those. */
async function reduced(source: string, pairs: readonly Pair[], size = 2): Promise<string> {
  const reduction = namedReduction(source, 'javascript', new LocalFunctions(), { owner: 'test' })
  const rows = pairs.map(([key, value]) => storedRow(key, value))
  const groups = Array.from({ length: Math.ceil(rows.length / size) }, (_, i) => rows.slice(i * size, (i + 1) * size))
  const reductions = await reduction.reduce(groups)
  const [result] = await reduction.rereduce([reductions.map((bytes) => Buffer.from(bytes))])
  return reduction.result(Buffer.from(result!))
}

function storedRow(key: JsonValue, value: JsonValue): StoredRow {
  const [id, keyText, valueText] = ['id', key, value].map((each) => Buffer.from(JSON.stringify(each)))
  return new StoredRow(encodeRow({ id: id!, key: keyText!, value: valueText!, exact: true }))
}
