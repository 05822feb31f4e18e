/** Functions in a process of the operator's own: a real one, that speaks the protocol, well and badly. */
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { collationKey, rawCollationKey } from '../../../src/encoding/collation/collation-key.ts'
import { type DesignProgram, MAPPED_FIELDS, type MappedBatch } from '../../../src/functions/functions.ts'
import {
  QueryServerFunctions,
  type QueryServerSettings,
} from '../../../src/functions/query-servers/query-server-functions.ts'
import type { Run } from '../../../src/runtime/fair-semaphore.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'

const PROGRAM = fileURLToPath(new URL('../support/query-server.mjs', import.meta.url))
const COMMAND = `"${process.execPath}" "${PROGRAM}"`

const RUN: Run = { owner: 'db' }

interface Started {
  readonly functions: QueryServerFunctions
  /** May be changed at any time. */
  readonly settings: { -readonly [Name in keyof QueryServerSettings]: QueryServerSettings[Name] }
  readonly logged: string[]
}

/** For tests that leave them as they find them: starting a process takes longer than most tests. */
function common(): QueryServerFunctions {
  shared ??= create(COMMAND)
  return shared.functions
}

let shared: Started | undefined
afterAll(() => shared?.functions.close())

function start(command = COMMAND): Started {
  const started = create(command)
  onTestFinished(() => started.functions.close())
  return started
}

function create(command: string): Started {
  const settings = { reduceLimit: true, timeoutMs: 10_000, processLimit: 2 }
  const logged: string[] = []
  const log = { ...silentLog, info: (message: string) => void logged.push(message) }
  const functions = new QueryServerFunctions({
    language: 'test',
    command: () => command,
    settings: () => settings,
    log,
  })
  return { functions, settings, logged }
}

function program(...sources: string[]) {
  const maps = sources.map((source) => ({ source, collation: 'unicode' as const }))
  return { key: sources.join(), language: 'test', library: undefined, maps }
}

let designs = 0
function design(members: object): DesignProgram {
  const text = JSON.stringify({ _id: '_design/x', ...members })
  return { id: '_design/x', key: `key ${designs++}`, language: 'test', text }
}

function documents(...values: unknown[]): Buffer[] {
  return values.map((value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)))
}

/** Rows as `document.map key=value`; each sort key must be the one of its key. */
function rowsOf({ rows, block, fields }: MappedBatch, encode = collationKey): string[] {
  return Array.from({ length: rows }, (_, row) => {
    const [document, map, , begin, keyAt, valueAt, end] = fields.subarray(
      row * MAPPED_FIELDS,
      (row + 1) * MAPPED_FIELDS,
    )
    const key = block.toString('utf8', keyAt, valueAt)
    expect(block.subarray(begin, keyAt)).toEqual(encode(JSON.parse(key)))
    return `${document}.${map} ${key}=${block.toString('utf8', valueAt, end)}`
  })
}

const PID = 'function (doc) { emit(process.pid, null) }'

async function pidOf(functions: QueryServerFunctions, run = RUN): Promise<string> {
  const [row = ''] = rowsOf(await functions.map(program(PID), documents({}), run))
  return row
}

describe('map', () => {
  it('gives the rows of many documents and functions, in order, with sort keys', async () => {
    const functions = common()
    const two = program(
      'function (doc) { emit(doc.a, 1); emit([doc.a, "ü"], { b: doc._id }) }',
      'function (doc) { if (doc.a > 1) emit(null) }',
    )
    const batch = await functions.map(two, documents({ _id: 'x', a: 1 }, { _id: 'y', a: 2 }), RUN)
    expect(rowsOf(batch)).toEqual([
      '0.0 1=1',
      '0.0 [1,"ü"]={"b":"x"}',
      '1.0 2=1',
      '1.0 [2,"ü"]={"b":"y"}',
      '1.1 null=null',
    ])
  })

  it('keeps the digits of what the process writes', async () => {
    const functions = common()
    const source = `function (doc) { write('[[[12345678901234567890, {"10": 1.50, "9": 1}]]]'); emitted = undefined }`
    // The process says its own line, and then a second one: it must not be asked again.
    const batch = functions.map(program(source), documents({}), RUN)
    expect(rowsOf(await batch)).toEqual(['0.0 12345678901234567890={"10":1.50,"9":1}'])
  })

  it('sorts raw where a map wants it', async () => {
    const functions = common()
    const maps = [{ source: 'function (doc) { emit({ a: "B" }, 1) }', collation: 'raw' as const }]
    const batch = await functions.map({ ...program(), maps }, documents({}), RUN)
    expect(rowsOf(batch, rawCollationKey)).toEqual(['0.0 {"a":"B"}=1'])
  })

  it('hands the library over, and takes it away again', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const source = 'function (doc) { emit(library || null, null) }'
    const withLibrary = { ...program(source), library: '{"a": \n "1"}' }
    expect(rowsOf(await functions.map(withLibrary, documents({}), RUN))).toEqual(['0.0 {"a":"1"}=null'])
    expect(rowsOf(await functions.map(program(source), documents({}), RUN))).toEqual(['0.0 null=null'])
  })

  it('sends the process the current settings', async () => {
    const { functions, settings } = start()
    const source = program('function (doc) { emit([settings.reduce_limit, settings.timeout]) }')
    expect(rowsOf(await functions.map(source, documents({}), RUN))).toEqual(['0.0 [true,10000]=null'])
    settings.reduceLimit = false
    settings.timeoutMs = 9000
    expect(rowsOf(await functions.map(source, documents({}), RUN))).toEqual(['0.0 [false,9000]=null'])
  })

  it('takes thousands of documents in one process', async () => {
    const functions = common()
    const many = Array.from({ length: 3000 }, (_, i) => ({ i, text: 'x'.repeat(1000) }))
    const batch = await functions.map(program('function (doc) { emit(doc.i) }'), documents(...many), RUN)
    expect(rowsOf(batch)).toEqual(many.map(({ i }) => `${i}.0 ${i}=null`))
  })

  it('fails with what the process says, which stays usable', async () => {
    const functions = common()
    const before = await pidOf(functions)
    await expect(functions.map(program('no function'), documents({}), RUN)).rejects.toMatchObject({
      kind: 'failed',
      error: 'compilation_error',
      reason: 'It is no function. (no function)',
    })
    const throwing = program('function (doc) { if (doc.bad) throw new TypeError("oh") }')
    await expect(functions.map(throwing, documents({}, { bad: true }, {}), RUN)).rejects.toMatchObject({
      kind: 'failed',
      error: 'TypeError',
      reason: 'oh',
    })
    expect(await pidOf(functions)).toBe(before)
  })
})

describe('reduce', () => {
  it('gives one result a group', async () => {
    const functions = common()
    const source = 'function (keys, values, rereduce) { return [keys, values.length, rereduce] }'
    const groups = [
      [
        { key: '"a"', id: 'x', value: '1' },
        { key: '[1]', id: 'y', value: '2' },
      ],
      [{ key: 'null', id: 'z', value: '{}' }],
    ]
    expect(await functions.reduce({ language: 'test', source }, groups, RUN)).toEqual([
      '[[["a","x"],[[1],"y"]],2,false]',
      '[[[null,"z"]],1,false]',
    ])
    expect(await functions.rereduce({ language: 'test', source }, [['1', '[2]'], ['3']], RUN)).toEqual([
      '[null,2,true]',
      '[null,1,true]',
    ])
  })
})

describe('a design document', () => {
  it('is taught once a process and again when its text changes', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const show = (text: string) => design({ shows: { a: `function () { return { body: "${text}" } }` } })
    const [one, two] = [show('one'), show('two')]
    const call = { document: null, request: '{}' }
    expect(await functions.show(one, 'a', call, RUN)).toEqual({ body: 'one' })
    expect(await functions.show(two, 'a', call, RUN)).toEqual({ body: 'two' })
    expect(await functions.show(one, 'a', call, RUN)).toEqual({ body: 'one' })
  })

  it('shows, with a text or an object', async () => {
    const functions = common()
    const shows = design({
      shows: {
        text: 'function (doc, req) { return doc.a + req.b }',
        object: 'function (doc, req) { return { code: 201, json: doc } }',
        number: 'function () { return 1 }',
      },
    })
    expect(await functions.show(shows, 'text', { document: '{"a":"x"}', request: '{"b":"y"}' }, RUN)).toEqual({
      body: 'xy',
    })
    const call = { document: null, request: '{}' }
    expect(await functions.show(shows, 'object', call, RUN)).toEqual({ code: 201, json: null })
    await expect(functions.show(shows, 'number', call, RUN)).rejects.toMatchObject({
      error: 'render_error',
      reason: 'undefined response from show function',
    })
    await expect(functions.show(shows, 'none', call, RUN)).rejects.toMatchObject({
      kind: 'not found',
      error: 'not_found',
    })
  })

  it('updates, and keeps the digits of the document', async () => {
    const functions = common()
    const updates = design({
      updates: {
        exact: `function (doc) { write('["up", {"n": 1.50}, "done"]') }`,
        nothing: 'function (doc) { return [null, "none"] }',
      },
    })
    const call = { document: '{"n":1}', request: '{}' }
    expect(await functions.update(updates, 'nothing', call, RUN)).toEqual({
      document: null,
      response: { body: 'none' },
    })
    expect(await functions.update(updates, 'exact', call, RUN)).toEqual({
      document: '{"n":1.50}',
      response: { body: 'done' },
    })
  })

  it('filters, by a function or by a view', async () => {
    const functions = common()
    const filters = design({
      filters: { big: 'function (doc, req) { return doc.n > req.query.least }' },
      views: { odd: { map: 'function (doc) { if (doc.n % 2) emit(doc.n) }' } },
    })
    const texts = ['{"n":1}', '{"n":2}', '{"n":3}']
    expect(await functions.filter(filters, 'big', texts, '{"query":{"least":1}}', RUN)).toEqual([false, true, true])
    expect(await functions.filterByView(filters, 'odd', texts, RUN)).toEqual([true, false, true])
  })

  it('validates many writes, each with a verdict of its own', async () => {
    const functions = common()
    const validation = design({
      validate_doc_update: `function (doc, previous, user, security) {
        if (doc.error) throw new RangeError('oh')
        if (doc.forbidden) throw { forbidden: { why: [previous, user.name, security.a] } }
        if (doc.unauthorized) throw { unauthorized: 'log in' }
      }`,
    })
    const write = (document: object) => ({
      document: JSON.stringify(document),
      previous: null,
      user: '{"name":"mia"}',
      security: '{"a":1}',
    })
    const writes = [{}, { error: 1 }, { forbidden: 1 }, { unauthorized: 1 }, {}].map(write)
    expect(await functions.validate(validation, writes, RUN)).toEqual([
      undefined,
      expect.objectContaining({ kind: 'failed', error: 'RangeError', reason: 'oh' }),
      expect.objectContaining({ kind: 'forbidden', error: 'forbidden', reason: '{"why":[null,"mia",1]}' }),
      expect.objectContaining({ kind: 'unauthorized', error: 'unauthorized', reason: 'log in' }),
      undefined,
    ])
  })

  it.each([
    ['bad_request', 'invalid', 'bad_request'],
    ['bad_ctype', 'unsupported type', 'bad_content_type'],
    ['not_acceptable', 'not acceptable', 'not_acceptable'],
    ['anything', 'failed', 'anything'],
  ])('says %s with the kind of it', async (id, kind, error) => {
    const functions = common()
    const shows = design({ shows: { a: `function () { fail("${id}", "why") }` } })
    await expect(functions.show(shows, 'a', { document: null, request: '{}' }, RUN)).rejects.toMatchObject({
      kind,
      error,
      reason: 'why',
    })
  })
})

describe('a list', () => {
  const lists = {
    all: `function (head, req) {
      start({ headers: { 'X-Head': String(head.total_rows) } })
      send('head ')
      var row
      while (row = getRow()) send(row.key + ' ')
      return 'tail'
    }`,
    two: 'function () { send(getRow().key); send(getRow().key); return "!" }',
    none: 'function () { return "nothing" }',
    late: 'function () { getRow(); start({ code: 404 }); send("x"); getRow(); return "" }',
    bad: 'function () { getRow(); fail("forbidden", "no") }',
  }
  const call = { head: '{"total_rows":3}', request: '{}' }

  it('is given rows, and says when it wants no more', async () => {
    const functions = common()
    const list = await functions.list(design({ lists }), 'all', call, RUN)
    expect(list.begun).toEqual({ chunks: ['head '], response: { headers: { 'X-Head': '3' } }, ended: false })
    expect(await list.rows(['{"key":1}', '{"key":2}'])).toEqual({
      chunks: ['1 ', '2 '],
      response: undefined,
      ended: false,
    })
    expect(await list.end()).toEqual({ chunks: ['tail'], response: undefined, ended: true })

    const two = await functions.list(design({ lists }), 'two', call, RUN)
    expect(await two.rows(['{"key":1}', '{"key":2}', '{"key":3}'])).toMatchObject({
      chunks: ['1', '2', '!'],
      ended: true,
    })
  })

  it('may end before the rows do', async () => {
    const functions = common()
    const first = design({ lists: { first: 'function () { return getRow().key }' } })
    const list = await functions.list(first, 'first', call, RUN)
    expect(await list.rows(['{"key":1}', '{"key":2}'])).toEqual({ chunks: ['1'], response: undefined, ended: true })
    // The process is free again, and soon somebody else's: to give the list up now is of no consequence.
    const other = await functions.list(first, 'first', call, RUN)
    list.abandon()
    expect(await other.rows(['{"key":3}'])).toMatchObject({ chunks: ['3'], ended: true })
  })

  it('may change how the reply begins', async () => {
    const functions = common()
    const list = await functions.list(design({ lists }), 'late', call, RUN)
    expect(await list.rows(['{}'])).toEqual({ chunks: ['x'], response: { code: 404 }, ended: false })
    list.abandon()
  })

  it('ends its process when it fails or is given up in the middle', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const before = await pidOf(functions)
    const bad = await functions.list(design({ lists }), 'bad', call, RUN)
    await expect(bad.rows(['{}'])).rejects.toMatchObject({ kind: 'forbidden', error: 'forbidden', reason: 'no' })
    const after = await pidOf(functions)
    expect(after).not.toBe(before)
    const abandoned = await functions.list(design({ lists }), 'all', call, RUN)
    abandoned.abandon()
    expect(await pidOf(functions)).not.toBe(after)
  })

  it('has what it gave before it failed taken first', async () => {
    const functions = common()
    const source = 'function () { send(getRow().key); getRow(); fail("forbidden", "no") }'
    const list = await functions.list(design({ lists: { source } }), 'source', call, RUN)
    const rows = ['{"key":1}', '{"key":2}', '{"key":3}']
    expect(await list.rows(rows)).toEqual({ chunks: ['1'], response: undefined, isPaused: true, ended: false })
    await expect(list.rows([])).rejects.toMatchObject({ kind: 'forbidden', error: 'forbidden', reason: 'no' })
  })

  it('waits for its turn', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const list = await functions.list(design({ lists }), 'all', call, RUN)
    let isServed = false
    const waiting = pidOf(functions).then(() => {
      isServed = true
    })
    await list.rows(['{"key":1}'])
    expect(isServed).toBe(false)
    await list.end()
    await waiting
  })
})

describe('a process that misbehaves', () => {
  const processError = (reason: unknown) => ({ kind: 'failed', error: 'os_process_error', reason })

  it.each([
    ['exits', 'function () { process.exit(3) }', '{exit_status,3}'],
    ['is killed', 'function () { process.kill(process.pid, "SIGKILL"); sleep() }', '{exit_status,137}'],
    ['writes what is no JSON', 'function () { write("garbage") }', 'The reply cannot be read: garbage'],
    ['answers something else', 'function () { write("{}") }', 'The reply cannot be read: {}'],
    ['has an error without a name', `function () { write('["error"]') }`, 'The reply cannot be read: ["error"]'],
  ])('and %s fails the call, and the next gets another', async (_, source, reason) => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const before = await pidOf(functions)
    await expect(functions.map(program(source), documents({}), RUN)).rejects.toMatchObject(processError(reason))
    expect(await pidOf(functions)).not.toBe(before)
  })

  it('and is silent for too long is ended', async () => {
    const { functions, settings } = start()
    await pidOf(functions)
    settings.timeoutMs = 200
    const silent = program('function () { sleep() }')
    await expect(functions.map(silent, documents({}), RUN)).rejects.toMatchObject(processError('OS process timed out.'))
    settings.timeoutMs = 10_000
    await pidOf(functions)
  })

  it('may take longer while it writes into the log', { timeout: 120_000 }, async () => {
    const { functions, settings, logged } = start()
    await pidOf(functions)
    // A line comes after a fifth of the time, in all six of them. On a busy machine that takes more time than the first.
    for (const timeoutMs of [1000, 5000, 20_000]) {
      logged.length = 0
      settings.timeoutMs = timeoutMs
      const silence = timeoutMs / 5
      const slow = program(
        `function () { for (var i = 0; i < 6; i++) { sleep(${silence}); log("line " + i) } emit(1) }`,
      )
      const rows = await functions.map(slow, documents({}), RUN).then(rowsOf, (error: unknown) => error)
      if (rows instanceof Error && timeoutMs < 20_000) continue
      expect(rows).toEqual(['0.0 1=null'])
      expect(logged).toEqual([0, 1, 2, 3, 4, 5].map((i) => `line ${i}`))
      break
    }
  })

  it('but not for ever', async () => {
    const { functions } = start()
    const talking = program('function () { for (;;) log("x") }')
    await expect(functions.map(talking, documents({}), RUN)).rejects.toMatchObject(
      processError('It logs without end and does not answer.'),
    )
  })

  it('is ended after a fatal error, which the client gets', async () => {
    const { functions } = start()
    const before = await pidOf(functions)
    const dying = program('function () { fatal("my_error", "my reason") }')
    await expect(functions.map(dying, documents({}), RUN)).rejects.toMatchObject({
      kind: 'failed',
      error: 'my_error',
      reason: 'my reason',
    })
    expect(await pidOf(functions)).not.toBe(before)
  })

  it('fails each call when there is no such program', async () => {
    const { functions } = start('/no/such/program')
    const failing = functions.map(program(PID), documents({}), RUN)
    await expect(failing).rejects.toMatchObject(processError('{exit_status,127}'))
  })

  it('and speaks without being asked does no harm to the next call', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const source = 'function () { write("[[]]") }'
    const before = await pidOf(functions)
    await functions.map(program(source), documents({}), RUN)
    expect(await pidOf(functions)).not.toBe(before)
  })
})

describe('the processes', () => {
  it('are not more than they may be, and databases take turns', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const served: string[] = []
    const call = async (owner: string) => {
      await pidOf(functions, { owner })
      served.push(owner)
    }
    await Promise.all([call('a'), call('a'), call('a'), call('b'), call('c')])
    expect(served).toEqual(['a', 'a', 'b', 'c', 'a'])
  })

  it('run at the same time up to the limit', async () => {
    const { functions } = start()
    const pids = await Promise.all([1, 2, 3, 4].map(() => pidOf(functions)))
    expect(new Set(pids).size).toBe(2)
  })

  it('lose no call of others when some of them die', async () => {
    const { functions } = start()
    const deadly = 'function (doc) { if (doc.n === 7) process.kill(process.pid, "SIGKILL"); emit(doc.n) }'
    const numbers = documents(...Array.from({ length: 10 }, (_, n) => ({ n })))
    const calls = Array.from({ length: 40 }, (_, i) => {
      const source = i % 10 === 3 ? deadly : 'function (doc) { emit(doc.n) }'
      return functions.map(program(source), numbers, { owner: `db-${i % 3}` })
    })
    const outcomes = await Promise.allSettled(calls)
    const failed = outcomes.flatMap(({ status }, i) => (status === 'rejected' ? [i] : []))
    expect(failed).toEqual([3, 13, 23, 33])
  })

  it('are restarted, after their calls are done', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    const lists = design({ lists: { pid: 'function () { send(process.pid); getRow(); return process.pid }' } })
    const running = await functions.list(lists, 'pid', { head: '{}', request: '{}' }, RUN)
    functions.restart()
    expect((await running.end()).chunks).toEqual(running.begun.chunks)
    expect(await pidOf(functions)).not.toContain(running.begun.chunks[0])
  })

  it('are given up with the call, also one that waits', async () => {
    const { functions, settings } = start()
    settings.processLimit = 1
    await pidOf(functions)
    const [running, waiting] = [new AbortController(), new AbortController()]
    const sleeping = program('function () { sleep() }')
    const first = functions.map(sleeping, documents({}), { owner: 'a', signal: running.signal })
    const second = functions.map(sleeping, documents({}), { owner: 'a', signal: waiting.signal })
    waiting.abort(new Error('not needed'))
    await expect(second).rejects.toThrow('not needed')
    running.abort(new Error('gone'))
    await expect(first).rejects.toThrow('gone')
    await pidOf(functions)
    await expect(pidOf(functions, { owner: 'a', signal: running.signal })).rejects.toThrow('gone')
  })

  it('end when the functions are closed, and what is under way fails', async () => {
    const { functions } = start()
    const sleeping = functions.map(program('function () { sleep() }'), documents({}), RUN)
    const failed = expect(sleeping).rejects.toMatchObject({ error: 'os_process_error' })
    await functions.close()
    await failed
    await expect(pidOf(functions)).rejects.toMatchObject({ error: 'os_process_error' })
  })
})
