/** Replication between databases of one server: what comes over, what the reply says, and what is refused. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { until } from '../../support/until.ts'
import { addDeletionAndConflict, expectSame, post, replicate } from '../peers.ts'

const server = serverOfFile()

async function pair(): Promise<[TestDatabase, TestDatabase]> {
  return [await server().database(), await server().database()]
}

describe('a one-shot replication', () => {
  it('brings documents, deletions, conflicts and attachments', async () => {
    const [source, target] = await pair()
    await source.save('plain', { digits: 12345678901234567890n.toString(), nested: { list: [1, 2.5] } })
    await addDeletionAndConflict(source)
    await source.put('with/a.txt', 'some text that is packed '.repeat(20), { 'Content-Type': 'text/plain' })
    await source.put('binary/b', Buffer.alloc(1_500_000, 7), { 'Content-Type': 'image/png' })
    await source.save('_design/d', { views: {} })
    await source.save(encodeURIComponent('ünï/cödé %'), { text: 'ü' })
    const reply = await replicate(server(), { source: source.name, target: target.name })
    expect(Object.keys(reply)).toEqual(['ok', 'session_id', 'source_last_seq', 'replication_id_version', 'history'])
    expect(reply.replication_id_version).toBe(3)
    const [entry] = reply.history
    expect(Object.keys(entry ?? {})).toEqual([
      'session_id',
      'start_time',
      'end_time',
      'start_last_seq',
      'end_last_seq',
      'recorded_seq',
      'missing_checked',
      'missing_found',
      'docs_read',
      'docs_written',
      'doc_write_failures',
    ])
    expect(entry).toMatchObject({
      start_last_seq: 0,
      missing_checked: 8,
      missing_found: 8,
      docs_read: 8,
      docs_written: 8,
      doc_write_failures: 0,
    })
    expect(entry?.start_time).toMatch(/^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$/)
    await expectSame(source, target)
  })

  it('resumes where the last one ended, and reports when there is nothing new', async () => {
    const [source, target] = await pair()
    await source.save('a', {})
    const first = await replicate(server(), { source: source.name, target: target.name })
    const again = await replicate(server(), { source: source.name, target: target.name })
    expect(again).toEqual({ ...first, no_changes: true })
    await source.save('b', {})
    const third = await replicate(server(), { source: source.name, target: target.name })
    expect(third.history).toHaveLength(2)
    expect(third.history[0]).toMatchObject({ start_last_seq: 1, recorded_seq: 2, docs_written: 1 })
    await expectSame(source, target)
  })

  it('says only that there is nothing new in an empty source', async () => {
    const [source, target] = await pair()
    const reply = await replicate(server(), { source: source.name, target: target.name })
    expect(reply).toEqual({ ok: true, no_changes: true, history: [] })
  })

  it('keeps equal logs on both sides', async () => {
    const [source, target] = await pair()
    await source.save('a', {})
    await replicate(server(), { source: source.name, target: target.name })
    const logs = await Promise.all(
      [source, target].map(async (each) => (await each.get('_local_docs?include_docs=true')).as<{ rows: object[] }>()),
    )
    expect(logs[0]?.rows).toHaveLength(1)
    expect(logs[1]?.rows).toEqual(logs[0]?.rows)
  })

  it('starts from the begin where one of the logs is gone', async () => {
    const [source, target] = await pair()
    await source.save('a', {})
    await replicate(server(), { source: source.name, target: target.name })
    const { rows } = (await target.get('_local_docs')).as<{ rows: { id: string; value: { rev: string } }[] }>()
    await target.delete(`${rows[0]?.id}?rev=${rows[0]?.value.rev}`)
    await source.save('b', {})
    const reply = await replicate(server(), { source: source.name, target: target.name })
    expect(reply.history).toHaveLength(1)
    expect(reply.history[0]).toMatchObject({ start_last_seq: 0, missing_checked: 2, missing_found: 1 })
  })

  it('sends attachments that the target has as stubs', async () => {
    const [source, target] = await pair()
    const put = await source.put('doc/a', Buffer.alloc(100_000, 1), { 'Content-Type': 'image/png' })
    await replicate(server(), { source: source.name, target: target.name })
    const second = await source.put(`doc/b?rev=${put.rev}`, 'more', { 'Content-Type': 'image/png' })
    expect(second.status).toBe(201)
    await replicate(server(), { source: source.name, target: target.name })
    await expectSame(source, target)
  })

  it('takes only the documents that are named', async () => {
    const [source, target] = await pair()
    for (const id of ['a', 'b', 'c d']) await source.save(encodeURIComponent(id), {})
    const reply = await replicate(server(), {
      source: source.name,
      target: target.name,
      doc_ids: ['a', 'c%20d', 'missing'],
    })
    expect(Object.keys(reply)).toEqual([
      'ok',
      'session_id',
      'source_last_seq',
      'replication_id_version',
      'start_time',
      'end_time',
      'docs_read',
      'docs_written',
      'doc_write_failures',
      'history',
    ])
    expect(reply).toMatchObject({ docs_read: 2, docs_written: 2 })
    const { rows } = (await target.get('_all_docs')).as<{ rows: { id: string }[] }>()
    expect(rows.map(({ id }) => id)).toEqual(['a', 'c d'])
    // What the last session did is told again, with all that a reply to named documents has.
    const again = await replicate(server(), {
      source: source.name,
      target: target.name,
      doc_ids: ['a', 'c d', 'missing'],
    })
    expect(again).toEqual({ ...reply, no_changes: true })
  })

  it('asks a filter of the source', async () => {
    const [source, target] = await pair()
    await source.save('_design/d', {
      filters: { of: 'function (doc, req) { return doc.kind === req.query.kind }' },
    })
    await source.save('a', { kind: 'x' })
    await source.save('b', { kind: 'y' })
    const reply = await replicate(server(), {
      source: source.name,
      target: target.name,
      filter: 'd/of',
      query_params: { kind: 'y' },
    })
    expect(reply.history[0]).toMatchObject({ docs_written: 1 })
    expect((await target.get('b')).status).toBe(200)
    expect((await target.get('a')).status).toBe(404)
  })

  it.each<[what: string, fields: object]>([
    ['no documents', { doc_ids: [] }],
    ['documents that are missing', { doc_ids: ['missing'] }],
    ['a filter that lets nothing pass', { filter: 'd/none' }],
    ['a selector that nothing matches', { selector: { kind: 'z' } }],
  ])('records what it looked at for %s, and does not read it again', async (_, fields) => {
    const [source, target] = await pair()
    await source.save('_design/d', { filters: { none: 'function () { return false }' } })
    const body = { source: source.name, target: target.name, ...fields }
    const first = await replicate(server(), body)
    expect(first).toMatchObject({ ok: true, source_last_seq: 1 })
    expect(first.history).toMatchObject([{ missing_checked: 0, docs_read: 0, recorded_seq: 1 }])
    expect(await replicate(server(), body)).toEqual({ ...first, no_changes: true })
  })

  it('gives a filter of the source a request like that of a feed', async () => {
    const [source, target] = await pair()
    const { db_name } = await source.info()
    const told = {
      id: null,
      method: 'GET',
      path: [db_name, '_changes'],
      query: { filter: 'd/of', kind: 'y' },
      headers: [],
      body: [],
      peer: 'replicator',
      form: [],
      cookie: [],
      userCtx: { db: db_name, name: null, roles: ['_admin'] },
    }
    await source.save('_design/d', {
      filters: {
        of: `function (doc, req) {
          const { info, ...others } = req
          return info.db_name === '${db_name}' && toJSON(others) === toJSON(${JSON.stringify(told)})
        }`,
      },
    })
    const body = { source: source.name, target: target.name, filter: 'd/of', query_params: { kind: 'y' } }
    expect((await replicate(server(), body)).history[0]).toMatchObject({ docs_written: 1 })
  })

  it('counts documents that the target refuses', async () => {
    const [source, target] = await pair()
    await target.save('_design/v', {
      validate_doc_update: 'function (doc) { if (doc.bad) throw { forbidden: "no" } }',
    })
    await source.save('good', {})
    await source.save('bad', { bad: true })
    const reply = await replicate(server(), { source: source.name, target: target.name })
    expect(reply.history[0]).toMatchObject({ docs_read: 2, docs_written: 1, doc_write_failures: 1 })
  })

  it('begins where `since_seq` says', async () => {
    const [source, target] = await pair()
    await source.save('a', {})
    await source.save('b', {})
    const reply = await replicate(server(), { source: source.name, target: target.name, since_seq: 1 })
    expect(reply.history[0]).toMatchObject({ start_last_seq: 1, docs_written: 1 })
  })

  it.each([-5, 1.5, 1e300, 'x', [3], {}])(
    'begins at the start where `since_seq` is no sequence: %j',
    async (since_seq) => {
      const [source, target] = [await server().database(), await server().database()]
      await source.save('a', {})
      await replicate(server(), { source: source.name, target: target.name, since_seq })
      expect((await target.get('a')).status).toBe(200)
    },
  )

  it('leaves no log where checkpoints are off', async () => {
    const [source, target] = await pair()
    await source.save('a', {})
    const reply = await replicate(server(), { source: source.name, target: target.name, use_checkpoints: false })
    expect(reply).toMatchObject({ ok: true, use_checkpoints: false, history: [{ docs_written: 1 }] })
    expect((await source.get('_local_docs')).as<{ rows: [] }>().rows).toEqual([])
  })

  it('takes winning revisions alone', async () => {
    const [source, target] = await pair()
    await source.replicate(
      { _id: 'a', _rev: '1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' },
      { _id: 'a', _rev: '1-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb' },
    )
    await replicate(server(), { source: source.name, target: target.name, winning_revs_only: true })
    const document = (await target.get('a?conflicts=true')).as<{ _rev: string; _conflicts?: [] }>()
    expect(document).toEqual({ _id: 'a', _rev: '1-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb' })
  })

  it('brings many documents', async () => {
    const [source, target] = await pair()
    const docs = Array.from({ length: 3000 }, (_, i) => ({ _id: `doc-${i}`, i }))
    await source.post('_bulk_docs', { docs })
    const reply = await replicate(server(), { source: source.name, target: target.name })
    expect(reply.history[0]).toMatchObject({ docs_written: 3000, recorded_seq: 3000 })
    expect((await target.info()).doc_count).toBe(3000)
  })
})

describe('a continuous replication', () => {
  it('follows the source until it is cancelled, and shows itself among the tasks', async () => {
    const [source, target] = await pair()
    const body = { source: source.name, target: target.name, continuous: true }
    const started = await post(server(), body)
    expect(started.status).toBe(202)
    const { _local_id: id } = started.as<{ _local_id: string }>()
    expect(started.json).toEqual({ ok: true, _local_id: id })
    expect(id).toMatch(/^[0-9a-f]{32}\+continuous$/)
    expect((await post(server(), body)).json).toEqual(started.json)
    await source.save('a', {})
    await until(async () => (await target.get('a')).status === 200)
    const tasks = async () =>
      (await server().request('GET', '/_active_tasks'))
        .as<Record<string, unknown>[]>()
        .filter((task) => task.replication_id === id)
    await until(async () => (await tasks())[0]?.docs_written === 1)
    expect((await tasks())[0]).toMatchObject({
      type: 'replication',
      source: source.name,
      target: target.name,
      continuous: true,
      doc_id: null,
      docs_read: 1,
      doc_write_failures: 0,
      missing_revisions_found: 1,
      revisions_checked: 1,
      source_seq: 1,
      progress: 100,
      checkpoint_interval: 5000,
    })
    const cancelled = await post(server(), { ...body, cancel: true })
    expect([cancelled.status, cancelled.json]).toEqual([200, { ok: true, _local_id: id }])
    expect(await tasks()).toEqual([])
    // The last checkpoint was written.
    const again = await replicate(server(), { source: source.name, target: target.name })
    expect(again.no_changes).toBe(true)
    expect((await post(server(), { ...body, cancel: true })).status).toBe(404)
  })

  it('continues beside a one-shot replication of the same databases, which writes the same log', async () => {
    const [source, target] = await pair()
    const body = { source: source.name, target: target.name }
    const continuous = { ...body, continuous: true, checkpoint_interval: 1 }
    expect((await post(server(), continuous)).status).toBe(202)
    for (let i = 0; i < 20; i++) {
      await source.save(`d${i}`, {})
      await replicate(server(), body)
      await until(async () => (await target.get(`d${i}`)).status === 200)
    }
    expect((await post(server(), { ...continuous, cancel: true })).status).toBe(200)
  })

  it('is cancelled by its id', async () => {
    const [source, target] = await pair()
    const started = await post(server(), { source: source.name, target: target.name, continuous: true })
    const { _local_id: id } = started.as<{ _local_id: string }>()
    expect((await post(server(), { cancel: true, replication_id: id })).status).toBe(200)
    const unknown = await post(server(), { cancel: true, replication_id: id })
    expect([unknown.status, unknown.as<{ error: string }>().error]).toEqual([404, 'not found'])
  })

  it('ends when a database is deleted', async () => {
    const [source, target] = await pair()
    const started = await post(server(), { source: source.name, target: target.name, continuous: true })
    const { _local_id: id } = started.as<{ _local_id: string }>()
    await source.request('DELETE')
    await until(async () => (await post(server(), { cancel: true, replication_id: id })).status === 404)
  })
})

describe('what cannot be replicated', () => {
  it('is reported with its status', async () => {
    const [source, target] = await pair()
    expectRefusal(
      await post(server(), { source: 'missing', target: target.name }),
      404,
      'db_not_found',
      'could not open missing',
    )
    expectRefusal(
      await post(server(), { source: source.name, target: 'missing' }),
      404,
      'db_not_found',
      'could not open missing',
    )
    for (const name of ['/missing', 'Missing', '_missing']) {
      const asSource = await post(server(), { source: name, target: target.name })
      expectRefusal(asSource, 404, 'db_not_found', `could not open ${name}`)
      const asTarget = await post(server(), { source: source.name, target: name })
      expectRefusal(asTarget, 404, 'db_not_found', `could not open ${name}`)
    }
    const created = await post(server(), { source: source.name, target: 'Missing', create_target: true })
    expect([created.status, created.as<{ error: string }>().error]).toEqual([400, 'illegal_database_name'])
    expectRefusal(await post(server(), []), 400, 'bad_request', 'Request body must be a JSON object')
    for (const [body, reason] of [
      [{}, 'The `source` field must exist and be either a string or an object.'],
      [{ source: source.name }, 'The `target` field must exist and be either a string or an object.'],
      [{ source: 1, target: target.name }, 'The `source` field must exist and be either a string or an object.'],
      [{ source: '', target: 'a' }, 'The `source` field must not be empty.'],
      [{ source: 'a', target: 'b', continuous: 'yes' }, 'The `continuous` field must be a boolean.'],
      [{ cancel: 1 }, 'The `cancel` field must be a boolean.'],
    ] as const) {
      expectRefusal(await post(server(), body), 500, 'bad_request', reason)
    }
    expectRefusal(
      await post(server(), { source: source.name, target: target.name, filter: 'nonsense' }),
      500,
      'error',
      'Invalid filter. Must match `ddocname/filtername`.',
    )
    expectRefusal(
      await post(server(), { source: source.name, target: target.name, filter: 'd/f', query_params: { a: 1 } }),
      400,
      'bad_request',
      'a value must be a string.',
    )
    expectRefusal(
      await post(server(), { source: source.name, target: target.name, query_params: { a: 1 } }),
      400,
      'bad_request',
      'a value must be a string.',
    )
    expectRefusal(
      await post(server(), { source: source.name, target: target.name, filter: 'd/f' }),
      500,
      'error',
      `Couldn't open document \`_design/d\` from source database \`${source.name}\`: missing`,
    )
    expect((await server().request('POST', '/_replicate', { body: '{', headers: {} })).status).toBe(400)
    expect((await server().request('GET', '/_replicate')).status).toBe(405)
    expect(
      (await server().request('POST', '/_replicate', { body: '{}', headers: { 'Content-Type': 'text/plain' } })).status,
    ).toBe(415)
  })

  it('creates a missing target when it is asked to', async () => {
    const source = await server().database()
    await source.save('a', {})
    const body = { source: source.name, target: `${source.name}-copy`, create_target: true }
    await replicate(server(), body)
    await replicate(server(), body)
    expect((await server().request('GET', `/${source.name}-copy/a`)).status).toBe(200)
  })

  it('creates one with partitions when it is asked to, here and elsewhere', async () => {
    const source = await server().database()
    await source.save('a:1', {})
    const create = { create_target: true, create_target_params: { partitioned: true, q: 4 } }
    const here = `${source.name}-here`
    const elsewhere = `${source.name}-elsewhere`
    await replicate(server(), { source: source.name, target: here, ...create })
    await replicate(server(), { source: source.name, target: `http://${server().host}/${elsewhere}`, ...create })
    for (const name of [here, elsewhere]) {
      const info = (await server().request('GET', `/${name}`)).json
      expect(info).toMatchObject({ props: { partitioned: true }, doc_count: 1 })
    }
    const body = { source: source.name, target: here, create_target_params: 'x' }
    expect((await server().request('POST', '/_replicate', { body })).status).toBe(500)
  })
})
