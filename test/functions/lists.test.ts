import { afterAll, expect, it } from 'vitest'
import type { ListOutput } from '../../src/functions/functions.ts'
import { designOf, functionsOfTest, run, testFunctions } from './test-functions.ts'

const functions = testFunctions({ processLimit: 3 })
afterAll(() => functions.close())

const list = (source: string, head: object = {}, request: object = {}) =>
  functions.list(
    designOf({ lists: { test: source } }),
    'test',
    { head: JSON.stringify(head), request: JSON.stringify(request) },
    run,
  )

const rows = (...keys: unknown[]) => keys.map((key) => JSON.stringify({ key }))
const text = ({ chunks }: ListOutput) => chunks.join('')

const lister =
  'function(head, req) { start({ code: 201 }); send("["); var row; while (row = getRow()) send(row.key); return "]" }'

it('gets rows by the page, and sends what it makes of them', async () => {
  const run = await list(lister)
  expect(run.begun).toMatchObject({ chunks: ['['], response: { code: 201 }, ended: false })
  expect(text(await run.rows(rows('a', 'b', 'c')))).toBe('abc')
  expect(text(await run.rows([]))).toBe('')
  expect(text(await run.rows(rows('d')))).toBe('d')
  expect(await run.end()).toMatchObject({ chunks: [']'], response: undefined, ended: true })
})

it('sees head, request and design document', async () => {
  const run = await list(
    'function(head, req) { return head.total_rows + req.method + this._id }',
    { total_rows: 3 },
    { method: 'GET' },
  )
  expect(run.begun).toMatchObject({ chunks: ['3GET_design/test'], ended: true })
})

it('may end before the rows do', async () => {
  const run = await list('function() { send(getRow().key); return "." }')
  expect(await run.rows(rows('a', 'b'))).toMatchObject({ chunks: ['a.'], ended: true })
  await expect(run.end()).rejects.toThrow('ended')
})

it('gets null for ever at the end', async () => {
  const run = await list('function() { return "" + getRow() + getRow() + getRow() }')
  expect(await run.end()).toMatchObject({ chunks: ['nullnullnull'], ended: true })
})

it('restarts the reply until something is sent', async () => {
  const source = `function() {
    start({ code: 1 }); getRow(); start({ code: 2 }); getRow(); start({ code: 3 }); send("x"); start({ code: 4 });
    getRow(); start({ code: 5 }); send("y")
  }`
  const run = await list(source)
  expect(run.begun).toMatchObject({ chunks: [], response: { code: 1 } })
  expect(await run.rows(rows(1))).toMatchObject({ chunks: [], response: { code: 2 } })
  expect(await run.rows(rows(2, 3))).toMatchObject({ chunks: ['xy'], response: { code: 4 }, ended: true })
})

it('says nothing of the reply when it does not start it', async () => {
  const run = await list('function() { send("x"); getRow() }')
  expect(run.begun).toMatchObject({ chunks: ['x'], response: undefined })
  expect(await run.end()).toMatchObject({ chunks: [], response: undefined, ended: true })
})

it('may provide several types', async () => {
  const source = `function() {
    provides("html", function() { start({ code: 203 }); send("<"); while (getRow()) send("-"); return ">" });
    provides("json", function() { var row; while (row = getRow()) send(toJSON(row)) })
  }`
  const html = await list(source, {}, { headers: { Accept: 'text/html' } })
  expect(html.begun).toMatchObject({
    chunks: ['<'],
    response: { code: 203, headers: { 'Content-Type': 'text/html; charset=utf-8' } },
  })
  expect(await html.rows(rows(1, 2))).toMatchObject({ chunks: ['--'], response: undefined })
  expect(await html.end()).toMatchObject({ chunks: ['>'], ended: true })
  const json = await list(source, {}, { headers: { Accept: 'application/json' } })
  expect(json.begun).toMatchObject({ chunks: [], response: { headers: { 'Content-Type': 'application/json' } } })
  expect(text(await json.rows(rows(1)))).toBe('{"key":1}')
  json.abandon()
  await expect(list(source, {}, { headers: { Accept: 'image/png' } })).rejects.toMatchObject({ kind: 'not acceptable' })
})

it('hands over what it sends before it is too much, and keeps its rows meanwhile', async () => {
  const run = await list('function() { var row; while (row = getRow()) send(row.key + "x".repeat(200000)) }')
  const outputs: ListOutput[] = [await run.rows(rows(1, 2, 3, 4, 5, 6, 7))]
  while (outputs.at(-1)?.isPaused) outputs.push(await run.rows([]))
  outputs.push(await run.end())
  expect(outputs.length).toBeGreaterThan(3)
  expect(outputs.map(text).join('').replaceAll('x', '')).toBe('1234567')
  expect(Math.max(...outputs.map((output) => text(output).length))).toBeLessThan(500_000)
})

it('fails as shows do, at the start and later', async () => {
  await expect(list('function() { throw ["error", "not_found", "x"] }')).rejects.toMatchObject({ kind: 'not found' })
  await expect(list('function() { null.x }')).rejects.toMatchObject({ kind: 'failed', error: 'render_error' })
  await expect(list('function(')).rejects.toMatchObject({ error: 'compilation_error' })
  const late = await list('function() { send("x"); getRow(); throw { error: "late", reason: "too late" } }')
  await expect(late.rows(rows(1))).rejects.toMatchObject({ kind: 'failed', error: 'late', reason: 'too late' })
  await expect(functions.list(designOf({}), 'x', { head: '{}', request: '{}' }, run)).rejects.toMatchObject({
    kind: 'not found',
    reason: 'missing lists function x on design doc _design/test',
  })
})

it('has the time limit between two steps only', async () => {
  const functions = functionsOfTest({ timeoutMs: 300 })
  const design = designOf({ lists: { slow: 'function() { getRow(); while (true); }', fine: lister } })
  const call = { head: '{}', request: '{}' }
  const slow = await functions.list(design, 'slow', call, run)
  const fine = await functions.list(design, 'fine', call, run)
  await expect(slow.rows(rows(1))).rejects.toMatchObject({ error: 'os_process_error', reason: 'OS process timed out.' })
  expect(text(await fine.rows(rows('a')))).toBe('a')
  expect(await fine.end()).toMatchObject({ ended: true })
})

it('frees its place when it is given up', async () => {
  const functions = functionsOfTest({ processLimit: 1 })
  const design = designOf({ lists: { test: lister } })
  const call = { head: '{}', request: '{}' }
  const first = await functions.list(design, 'test', call, run)
  first.abandon()
  await expect(first.rows(rows(1))).rejects.toThrow('ended')
  const controller = new AbortController()
  const second = await functions.list(design, 'test', call, { ...run, signal: controller.signal })
  controller.abort(new Error('enough'))
  await expect(second.rows(rows(1))).rejects.toThrow('enough')
  const third = await functions.list(design, 'test', call, run)
  expect(await third.end()).toMatchObject({ ended: true })
})
