/** Peers that answer what no server of the family would: by mistake, or in order to do harm. */
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'
import { until } from '../../support/until.ts'
import { post, replicate } from '../peers.ts'
import { change, revision, ScriptedPeer, status, text } from './scripted-peer.ts'

const here = serverOfFile()

const REV = revision(1)
const document = (id: string, more: object = {}) => ({
  _id: id,
  _rev: REV,
  _revisions: { start: 1, ids: [REV.slice(2)] },
  ...more,
})

describe('a source', () => {
  it('that leaves out results is asked for them by themselves', async () => {
    const peer = await ScriptedPeer.start(({ path }) => {
      if (path === '_changes')
        return { results: [change(1, 'a', REV), change(2, 'b', REV), change(3, 'c', REV)], last_seq: 3 }
      if (path === '_bulk_get')
        return {
          results: [
            { id: 'a', docs: [{ ok: document('a') }] },
            { id: 'b', docs: [] },
          ],
        }
      if (path === 'b' || path === 'c') return [{ ok: document(path) }]
      return undefined
    })
    const target = await here().database()
    const { history } = await replicate(here(), { source: peer.url, target: target.name })
    expect(history[0]).toMatchObject({ docs_read: 3, docs_written: 3, missing_found: 3 })
    for (const id of ['a', 'b', 'c']) expect((await target.get(id)).status, id).toBe(200)
  })

  it('that sends documents nobody asked for has them left out', async () => {
    const peer = await ScriptedPeer.start(({ path }) => {
      if (path === '_changes') return { results: [change(1, 'a', REV)], last_seq: 1 }
      if (path === '_bulk_get')
        return {
          results: [
            { id: 'a', docs: [{ ok: document('a') }, { ok: document('evil') }] },
            { id: 'x', docs: [{ ok: document('_design/evil') }] },
          ],
        }
      return undefined
    })
    const target = await here().database()
    const { history } = await replicate(here(), { source: peer.url, target: target.name })
    expect((await target.get('_all_docs')).as<{ rows: { id: string }[] }>().rows.map(({ id }) => id)).toEqual(['a'])
    expect(history[0]).toMatchObject({ docs_read: 1, docs_written: 1 })
  })

  it('that sends another document than the one that was asked for fails the replication', async () => {
    const peer = await ScriptedPeer.start(({ path }) => {
      if (path === '_changes') return { results: [change(1, 'a', REV)], last_seq: 1 }
      if (path === '_bulk_get') return { results: [] }
      return path === 'a' ? [{ ok: { _id: '_design/other', _rev: REV } }] : undefined
    })
    const target = await here().database()
    const reply = await post(here(), { source: peer.url, target: target.name, retries_per_request: 1 })
    expect(reply.status, reply.text).toBe(500)
    expect((await target.info()).doc_count).toBe(0)
  })

  it('that does not filter by ids has other documents left out', async () => {
    const peer = await ScriptedPeer.start(({ path, body }) => {
      if (path === '_changes') return { results: [change(1, 'a', REV), change(2, 'b', REV)], last_seq: 2 }
      if (path === '_bulk_get') {
        const { docs } = JSON.parse(body) as { docs: { id: string }[] }
        return { results: docs.map(({ id }) => ({ id, docs: [{ ok: document(id) }] })) }
      }
      return undefined
    })
    const target = await here().database()
    await replicate(here(), { source: peer.url, target: target.name, doc_ids: ['a'] })
    expect((await target.get('b')).status).toBe(404)
    expect((await target.get('a')).status).toBe(200)
  })

  it('that sends documents twice has them counted once', async () => {
    const peer = await ScriptedPeer.start(({ path }) => {
      if (path === '_changes') return { results: [change(1, 'a', REV), change(1, 'a', REV)], last_seq: 1 }
      if (path === '_bulk_get')
        return {
          results: [
            { id: 'a', docs: [{ ok: document('a') }] },
            { id: 'a', docs: [{ ok: document('a') }] },
          ],
        }
      return undefined
    })
    const target = await here().database()
    const { history } = await replicate(here(), { source: peer.url, target: target.name })
    expect(history[0]).toMatchObject({ missing_checked: 1, missing_found: 1, docs_read: 1, docs_written: 1 })
  })

  it('whose feed does not advance fails the replication', async () => {
    const peer = await ScriptedPeer.start(({ path }) => {
      if (path === '_changes') return { results: [change(1, 'a', REV)], last_seq: 1, pending: 5 }
      if (path === '_bulk_get') return { results: [{ id: 'a', docs: [{ ok: document('a') }] }] }
      return undefined
    })
    const target = await here().database()
    const reply = await post(here(), { source: peer.url, target: target.name, retries_per_request: 1 })
    expect(reply.status, reply.text).toBe(500)
  }, 10_000)

  it('that names no sequence for some changes has none skipped', async () => {
    let isBroken = true
    let log: object | undefined
    const peer = await ScriptedPeer.start(({ method, path, query, body }) => {
      if (path.startsWith('_local/')) {
        if (method === 'PUT') log = JSON.parse(body) as object
        return method === 'PUT' || !log ? undefined : { ...log, _id: path, _rev: '0-1' }
      }
      if (path === '_changes' && query.get('since') !== '0') return { results: [], last_seq: 3 }
      if (path === '_changes') {
        return { results: [change(null, 'a', REV), change(null, 'b', REV), change(3, 'c', REV)], last_seq: 3 }
      }
      const ids =
        path === '_bulk_get' ? (JSON.parse(body) as { docs: { id: string }[] }).docs.map(({ id }) => id) : [path]
      if (isBroken && ids.includes('b')) return status(500, { error: 'broken', reason: 'broken' })
      return path === '_bulk_get' ? { results: ids.map((id) => ({ id, docs: [{ ok: document(id) }] })) } : undefined
    })
    const target = await here().database()
    const request = { source: peer.url, target: target.name, worker_batch_size: 1, worker_processes: 1 }
    const failed = await post(here(), { ...request, retries_per_request: 0 })
    expect(failed.status, failed.text).toBe(500)
    isBroken = false
    await replicate(here(), { ...request, retries_per_request: 0 })
    for (const id of ['a', 'b', 'c']) expect((await target.get(id)).status, id).toBe(200)
  })

  it('whose pages are too large is asked for smaller ones', async () => {
    const padding = 'x'.repeat(100_000)
    const rows = Array.from({ length: 700 }, (_, i) => ({ ...change(i + 1, `d${i}`, REV), padding }))
    const peer = await ScriptedPeer.start(({ path, query, body }) => {
      if (path === '_bulk_get') {
        const { docs } = JSON.parse(body) as { docs: { id: string }[] }
        return { results: docs.map(({ id }) => ({ id, docs: [{ ok: document(id) }] })) }
      }
      if (path !== '_changes') return undefined
      const since = Number(query.get('since'))
      const results = rows.slice(since, since + Number(query.get('limit')))
      return { results, last_seq: since + results.length }
    })
    const target = await here().database()
    const { history } = await replicate(here(), { source: peer.url, target: target.name })
    expect(history[0]).toMatchObject({ docs_written: 700, recorded_seq: 700 })
  })

  const misshapen: unknown[] = [null, 5, 'x', [], [[[]]]]
  const resources = ['', '_changes', '_bulk_get', '_local/']
  it.each(resources)('that answers /db/%s with other JSON than it should fails the replication', async (path) => {
    for (const value of misshapen) {
      const peer = await ScriptedPeer.start((asked) => {
        const isMeant = path === '_local/' ? asked.path.startsWith(path) : asked.path === path
        if (isMeant) return text(JSON.stringify(value))
        if (asked.path === '_changes') return { results: [change(1, 'a', REV)], last_seq: 1 }
        return asked.path === 'a' ? [] : undefined
      })
      const target = await here().database()
      const reply = await post(here(), { source: peer.url, target: target.name, retries_per_request: 0 })
      expect(reply.status, `${JSON.stringify(value)} ${reply.text}`).toBe(500)
    }
  })

  const unreadable: unknown[] = [
    null,
    5,
    { id: 'a', changes: [] },
    { seq: 1, id: 5, changes: [{ rev: REV }] },
    { seq: 1, id: 'a', changes: 'x' },
    { seq: 1, id: 'a', changes: [5] },
  ]
  it.each(unreadable)('with a row that cannot be read fails the replication: %j', async (row) => {
    const peer = await ScriptedPeer.start(({ path }) =>
      path === '_changes' ? { results: [row], last_seq: 1 } : undefined,
    )
    const target = await here().database()
    const reply = await post(here(), { source: peer.url, target: target.name, retries_per_request: 0 })
    expect(reply.status, reply.text).toBe(500)
  })

  const unstorable: [string, string][] = [
    ['a', 'garbage'],
    ['a', `1-${'x'.repeat(5000)}`],
    ['_local/a', REV],
    ['_odd', REV],
    ['__proto__', REV],
    ['_design/', REV],
  ]
  describe.each(['local', 'remote'])('of a %s target', (side) => {
    it.each(unstorable)('with a document that no database can hold continues: %s %s', async (id, rev) => {
      const peer = await ScriptedPeer.start(({ path, body }) => {
        if (path === '_changes') return { results: [change(1, id, rev), change(2, 'fine', REV)], last_seq: 2 }
        if (path !== '_bulk_get') return undefined
        const { docs } = JSON.parse(body) as { docs: { id: string; rev: string }[] }
        return { results: docs.map((each) => ({ id: each.id, docs: [{ ok: { _id: each.id, _rev: each.rev } }] })) }
      })
      const target = await here().database()
      const name = side === 'local' ? target.name : target.url
      const { history } = await replicate(here(), { source: peer.url, target: name })
      expect(history[0]).toMatchObject({ docs_read: 2, docs_written: 1, doc_write_failures: 1 })
      expect((await target.info()).doc_count).toBe(1)
      expect((await target.get('_local/a')).status).toBe(404)
    })
  })

  it('that has lost a document says so, and the others come over', async () => {
    const peer = await ScriptedPeer.start(({ path }) => {
      if (path === '_changes') return { results: [change(1, 'gone', REV), change(2, 'b', REV)], last_seq: 2 }
      return path === 'b' ? [{ ok: document('b') }] : undefined
    })
    const target = await here().database()
    const { history } = await replicate(here(), { source: peer.url, target: target.name })
    expect(history[0]).toMatchObject({ missing_found: 2, docs_read: 1, docs_written: 1, doc_write_failures: 0 })
  })
})

describe('a peer that never answers', () => {
  const places = ['_session', '', '_local/', '_changes', '_bulk_get', 'a']
  it.each(places)('does not block the cancellation of the replication: /db/%s', async (place) => {
    const peer = await ScriptedPeer.start(({ path }) => {
      const isMeant = place === '_local/' ? path.startsWith(place) : path.replace(/^\//, '') === place
      if (isMeant) return () => {}
      if (path === '_changes') return { results: [change(1, 'a', REV)], last_seq: 1 }
      return undefined
    })
    const target = await here().database()
    const name = place === '_session' ? 'joe:pw@' : ''
    const body = { source: `http://${name}${peer.host}/db`, target: target.name, connection_timeout: 3_600_000 }
    const waiting = post(here(), body)
    await until(() => Promise.resolve(peer.seen.some(({ path }) => path.replace(/^\//, '').startsWith(place))))
    expect((await post(here(), { ...body, cancel: true })).status).toBe(200)
    expect((await waiting).json).toMatchObject({ error: 'cancelled' })
  })
})

describe('a target', () => {
  it('gets no document that it was not asked about', async () => {
    const source = await here().database()
    const rev = await source.save('secret', { text: 'secret' })
    await source.save('public', {})
    const sent: string[] = []
    const peer = await ScriptedPeer.start(({ path, body }) => {
      if (path === '_revs_diff') {
        const asked = JSON.parse(body) as Record<string, string[]>
        return {
          ...Object.fromEntries(Object.entries(asked).map(([id, missing]) => [id, { missing }])),
          secret: { missing: [rev] },
        }
      }
      if (path === '_bulk_docs') {
        sent.push(body)
        return []
      }
      return undefined
    })
    await replicate(here(), { source: source.name, target: peer.url, doc_ids: ['public'] })
    expect(sent.join()).toContain('public')
    expect(sent.join()).not.toContain('secret')
  })

  const asked = (body: string) => Object.entries(JSON.parse(body) as Record<string, string[]>)

  const misleading: object[] = [{ missing: ['garbage'] }, { missing: [REV] }, { missing: [5] }, { missing: 'x' }, {}]
  it.each(misleading)('that does not say what it lacks fails the replication: %j', async (difference) => {
    const source = await here().database()
    await source.save('a', {})
    const peer = await ScriptedPeer.start(({ path, body }) =>
      path === '_revs_diff' ? Object.fromEntries(asked(body).map(([id]) => [id, difference])) : undefined,
    )
    const reply = await post(here(), { source: source.name, target: peer.url, retries_per_request: 0 })
    expect(reply.status, reply.text).toBe(500)
  })

  it('may name ancestors that do not exist', async () => {
    const source = await here().database()
    await source.put('a/x', 'text', { 'Content-Type': 'text/plain' })
    const peer = await ScriptedPeer.start(({ path, body }) => {
      if (path !== '_revs_diff') return undefined
      return Object.fromEntries(asked(body).map(([id, missing]) => [id, { missing, possible_ancestors: ['x', 5] }]))
    })
    const { history } = await replicate(here(), { source: source.name, target: peer.url })
    expect(history[0]).toMatchObject({ docs_written: 1 })
  })

  const outcomes: unknown[] = [{}, 5, 'x', [null], [5], [{ id: 'other', error: 'conflict' }]]
  it.each(outcomes)('that does not say what it wrote fails the replication: %j', async (outcome) => {
    const source = await here().database()
    await source.save('a', {})
    const peer = await ScriptedPeer.start(({ path, body }) => {
      if (path === '_bulk_docs') return text(JSON.stringify(outcome))
      if (path !== '_revs_diff') return undefined
      return Object.fromEntries(asked(body).map(([id, missing]) => [id, { missing }]))
    })
    const reply = await post(here(), { source: source.name, target: peer.url, retries_per_request: 0 })
    expect(reply.status, reply.text).toBe(500)
  })
})
