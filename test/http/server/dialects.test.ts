import { describe, expect, it } from 'vitest'
import type { Dialect } from '../../../src/config/dialect.ts'
import { startService } from '../../support/service.ts'

const DIALECTS: readonly Dialect[] = ['1.6', '3']

interface Server {
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
}

async function start(dialect: Dialect, settings: Record<string, Record<string, string>> = {}): Promise<Server> {
  const { url } = await startService({ dialect, settings })
  return {
    send: (method, path, body, headers = {}) =>
      fetch(`${url}${path}`, {
        method,
        headers: { 'Content-Type': 'application/json', ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
  }
}

/** What both dialects answer, the first first. */
async function both<T>(ask: (server: Server) => Promise<T>): Promise<T[]> {
  const answers: T[] = []
  for (const dialect of DIALECTS) {
    const server = await start(dialect)
    await server.send('PUT', 'db')
    answers.push(await ask(server))
  }
  return answers
}

const replicated = (id: string) => ({ _id: id, _rev: '1-abc', _revisions: { start: 1, ids: ['abc'] } })

describe('dialects 1.6 and 3', () => {
  it('differ in the type of JSON that was not explicitly accepted', async () => {
    const types = await both(async ({ send }) =>
      (await send('GET', 'db', undefined, { Accept: '*/*' })).headers.get('content-type'),
    )
    expect(types).toEqual(['text/plain;charset=utf-8', 'application/json'])
  })

  it('differ in the outcomes of a replicator', async () => {
    const replies = await both(async ({ send }) => {
      return (await send('POST', 'db/_bulk_docs', { new_edits: false, docs: [replicated('a')] })).json()
    })
    expect(replies).toEqual([[{ ok: true, id: 'a', rev: '1-abc' }], []])
  })

  it('report documents that a replicator may not write', async () => {
    const replies = await both(async ({ send }) => {
      await send('PUT', 'db/_design/v', { validate_doc_update: 'function () { throw { forbidden: "no" } }' })
      return (await send('POST', 'db/_bulk_docs', { new_edits: false, docs: [replicated('a')] })).json()
    })
    for (const reply of replies) expect(reply).toMatchObject([{ id: 'a', error: 'forbidden', reason: 'no' }])
  })

  it('differ in the form of _bulk_get', async () => {
    const ask = (accept: string) =>
      both(async ({ send }) => {
        const reply = await send('POST', 'db/_bulk_get', { docs: [{ id: 'a' }] }, { Accept: accept })
        await reply.arrayBuffer()
        return reply.headers.get('content-type')?.split(';')[0]
      })
    expect(await ask('*/*')).toEqual(['multipart/mixed', 'application/json'])
    expect(await ask('application/json')).toEqual(['application/json', 'application/json'])
    expect(await ask('multipart/related')).toEqual(['multipart/related', 'multipart/related'])
  })

  it('differ in the reply to an anonymous logout', async () => {
    const statuses: number[] = []
    for (const dialect of DIALECTS) {
      const { send } = await start(dialect, { admins: { root: 'top' } })
      statuses.push((await send('DELETE', '_session')).status)
    }
    expect(statuses).toEqual([401, 200])
  })

  it('differ in how the passwords of administrators are hashed, and verify both', async () => {
    for (const [dialect, pattern] of [
      ['1.6', /^-hashed-[0-9a-f]{40},/],
      ['3', /^-pbkdf2:sha256-[0-9a-f]{64},[0-9a-f]+,\d+$/],
    ] as const) {
      const { send } = await start(dialect)
      await send('PUT', '_config/admins/root', 'top')
      const headers = { Authorization: `Basic ${btoa('root:top')}` }
      expect(await (await send('GET', '_config/admins/root', undefined, headers)).json()).toMatch(pattern)
    }
  })

  it('differ in ranges whose end lies before their start', async () => {
    const replies = await both(async ({ send }) => {
      await send('PUT', 'db/_design/v', { views: { all: { map: 'doc => emit(doc._id)' } } })
      const paths = ['db/_all_docs', 'db/_design/v/_view/all']
      const ranges = ['startkey="b"&endkey="a"', 'startkey="a"&endkey="b"&descending=true']
      const bad = paths.flatMap((path) => ranges.map((range) => `${path}?${range}`))
      const good = paths.map((path) => `${path}?startkey="a"&endkey="a"`)
      return Promise.all([...bad, ...good].map(async (path) => (await send('GET', path)).status))
    })
    expect(replies).toEqual([
      [200, 200, 200, 200, 200, 200],
      [400, 400, 400, 400, 200, 200],
    ])
    const { send } = await start('3')
    await send('PUT', 'db')
    expect(await (await send('GET', 'db/_all_docs?startkey="b"&endkey="a"')).json()).toEqual({
      error: 'query_parse_error',
      reason: 'No rows can match your key range, reverse your start_key and end_key or set descending=true',
    })
    expect((await send('POST', 'db/_all_docs/queries', { queries: [{ startkey: 'b', endkey: 'a' }] })).status).toBe(400)
  })

  it('differ in whether local documents need their revision', async () => {
    const statuses = await both(async ({ send }) => {
      const first = (await send('PUT', 'db/_local/a', { n: 1 })).status
      const second = (await send('PUT', 'db/_local/a', { n: 2 })).status
      const bulk = (await (await send('POST', 'db/_bulk_docs', { docs: [{ _id: '_local/a', n: 3 }] })).json()) as {
        ok?: boolean
      }[]
      return [first, second, bulk[0]?.ok, (await send('DELETE', 'db/_local/a')).status]
    })
    expect(statuses).toEqual([
      [201, 409, undefined, 409],
      [201, 201, true, 200],
    ])
  })

  it('differ in the status of a replication that is not specified', async () => {
    const answers = await both(async ({ send }) => {
      const replies = [await send('POST', '_replicate', { source: 'db' })]
      replies.push(await send('POST', '_replicate', { source: 'db', target: 'db', query_params: { a: 1 } }))
      return Promise.all(
        replies.map(async (reply) => [reply.status, ((await reply.json()) as { error: string }).error]),
      )
    })
    const inBoth = [400, 'bad_request']
    expect(answers).toEqual([
      [[500, 'bad_request'], inBoth],
      [[400, 'bad_request'], inBoth],
    ])
  })

  it('differ in the error of an invalid id', async () => {
    const replies = await both(async ({ send }) => {
      const error = async (reply: Promise<Response>) => ((await (await reply).json()) as { error: string }).error
      const bulk = { docs: [{ _id: '_x' }] }
      const got = await send('POST', 'db/_bulk_get', { docs: [{ id: '_x' }] }, { Accept: 'application/json' })
      const { results } = (await got.json()) as { results: { docs: { error: { error: string } }[] }[] }
      return [
        await error(send('PUT', 'db/_x', {})),
        await error(send('POST', 'db', { _id: '' })),
        await error(send('POST', 'db/_bulk_docs', bulk)),
        results[0]?.docs[0]?.error.error,
      ]
    })
    expect(replies).toEqual([Array(4).fill('bad_request'), Array(4).fill('illegal_docid')])
  })

  it('differ in the reply without changes', async () => {
    const replies = await both(async ({ send }) => {
      for (const id of ['a', 'b', 'c']) await send('PUT', `db/${id}`, {})
      const ask = async (query: string) => {
        const reply = (await (await send('GET', `db/_changes?limit=0${query}`)).json()) as Record<string, unknown>
        return { ...reply, results: (reply.results as unknown[]).length }
      }
      return [
        await ask(''),
        await ask('&since=2'),
        await ask('&since=3&timeout=0'),
        await ask('&feed=longpoll&since=1'),
      ]
    })
    expect(replies).toEqual([
      [
        { results: 1, last_seq: 1, pending: 2 },
        { results: 1, last_seq: 3, pending: 0 },
        { results: 0, last_seq: 3, pending: 0 },
        { results: 1, last_seq: 2, pending: 1 },
      ],
      [
        { results: 0, last_seq: 0, pending: 3 },
        { results: 0, last_seq: 2, pending: 1 },
        { results: 0, last_seq: 3, pending: 0 },
        { results: 0, last_seq: 1, pending: 2 },
      ],
    ])
  })

  it('answer 404 to a POST to an unknown system name', async () => {
    const replies = await both(async ({ send }) => {
      const reply = await send('POST', 'db/_nosuch', {})
      return [reply.status, await reply.json()]
    })
    for (const reply of replies) {
      expect(reply).toEqual([404, { error: 'not_found', reason: 'There is no resource _nosuch.' }])
    }
  })

  it('can be switched at run time, and only to a known one', async () => {
    const { send } = await start('1.6')
    const type = async () => (await send('GET', '', undefined, { Accept: '*/*' })).headers.get('content-type')
    expect(await type()).toBe('text/plain;charset=utf-8')
    await send('PUT', '_config/httpd/dialect', '3')
    expect(await type()).toBe('application/json')
    expect((await send('PUT', '_config/httpd/dialect', '2')).status).toBe(400)
  })
})
