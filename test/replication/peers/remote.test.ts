/** Replication with another server, over HTTP: pull and push of everything that a document can have. */
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'
import { until } from '../../support/until.ts'
import { addDeletionAndConflict, expectSame, post, replicate } from '../peers.ts'

const here = serverOfFile()
const there = serverOfFile()

type Direction = 'pull' | 'push' | 'between'

/** A source, a target, and how the server names both. */
async function pair(direction: Direction) {
  const source = await (direction === 'push' ? here() : there()).database()
  const target = await (direction === 'pull' ? here() : there()).database()
  const address = (database: TestDatabase) => (database.client === here() ? database.name : database.url)
  return { source, target, body: { source: address(source), target: address(target) } }
}

async function fill(source: TestDatabase): Promise<void> {
  await source.save('plain', { nested: { list: [1, 2.5, null] }, text: 'ü\u0000"' })
  await source.put('digits', '{"n":123456789012345678901234567890,"0":1,"a":1.10}')
  await addDeletionAndConflict(source)
  await source.put('small/a.txt', 'some text that is packed '.repeat(20), { 'Content-Type': 'text/plain' })
  const large = await source.put('large/b', randomBytes(1_500_000), { 'Content-Type': 'image/png' })
  await source.put(`large/c%20ü.txt?rev=${large.rev}`, 'text '.repeat(100_000), { 'Content-Type': 'text/plain' })
  await source.save('_design/d', { views: {} })
  for (const id of ['ünï/cödé %', '..', '.', 'a+b?c#d', '"']) await source.save(encodeURIComponent(id), { id })
}

describe.each<Direction>(['pull', 'push', 'between'])('%s', (direction) => {
  it('brings everything, and only what is new the next time', async () => {
    const { source, target, body } = await pair(direction)
    await fill(source)
    const reply = await replicate(here(), body)
    expect(reply.history[0]).toMatchObject({ docs_read: 13, docs_written: 13, doc_write_failures: 0 })
    await expectSame(source, target)
    expect(await replicate(here(), body)).toEqual({ ...reply, no_changes: true })
    await source.save('another', {})
    const next = await replicate(here(), body)
    expect(next.history[0]).toMatchObject({ docs_read: 1, docs_written: 1, missing_checked: 1 })
    expect(next.history).toHaveLength(2)
    await expectSame(source, target)
  })

  it('brings documents that threads read, with and without attachments', async () => {
    const { source, target, body } = await pair(direction)
    for (const size of [200_000, 900_000]) await source.save(`large-${size}`, { text: 'x'.repeat(size) })
    const { rev } = await source.put('attached', { text: 'y'.repeat(300_000) })
    await source.put(`attached/a?rev=${rev}`, randomBytes(300_000), { 'Content-Type': 'image/png' })
    await source.save('small', {})
    const { history } = await replicate(here(), body)
    expect(history[0]).toMatchObject({ doc_write_failures: 0 })
    await expectSame(source, target)
  })

  it('sends no attachment that the target has', async () => {
    const { source, target, body } = await pair(direction)
    const first = await source.put('doc/a', randomBytes(300_000), { 'Content-Type': 'image/png' })
    await replicate(here(), body)
    await source.put(`doc/b?rev=${first.rev}`, 'b', { 'Content-Type': 'image/png' })
    await replicate(here(), body)
    await expectSame(source, target)
    // Both documents grow from what each has: stubs that the target cannot resolve are asked for again.
    await source.replicate({
      _id: 'other',
      _revisions: { start: 2, ids: ['b'.repeat(32), 'a'.repeat(32)] },
      _attachments: { x: { content_type: 'image/png', data: 'AAAA', revpos: 1 } },
    })
    await target.replicate({ _id: 'other', _rev: `1-${'a'.repeat(32)}` })
    await replicate(here(), body)
    const document = await target.get('other?attachments=true')
    expect(document.as<{ _attachments: object }>()._attachments).toMatchObject({ x: { data: 'AAAA' } })
  })

  it('follows the source', async () => {
    const { source, target, body } = await pair(direction)
    await source.save('before', {})
    expect((await post(here(), { ...body, continuous: true })).status).toBe(202)
    await until(async () => (await target.get('before')).status === 200)
    for (let i = 0; i < 20; i++) await source.save(`doc-${i}`, { i })
    await until(async () => (await target.get('doc-19')).status === 200)
    await source.put('with/a', randomBytes(200_000), { 'Content-Type': 'image/png' })
    await until(async () => (await target.get('with')).status === 200)
    expect((await post(here(), { ...body, continuous: true, cancel: true })).status).toBe(200)
    expect(await replicate(here(), body)).toMatchObject({ no_changes: true })
    await expectSame(source, target)
  })

  it('takes named documents, filters and selectors', async () => {
    const { source, body } = await pair(direction)
    await source.save('_design/d', { filters: { of: 'function (doc, req) { return doc.kind === req.query.kind }' } })
    for (const [id, kind] of Object.entries({ a: 'x', b: 'y', c: 'x' })) await source.save(id, { kind })
    const named = await replicate(here(), { ...body, doc_ids: ['a', 'b', 'missing'] })
    expect(named).toMatchObject({ docs_read: 2, docs_written: 2 })
    const filtered = await replicate(here(), { ...body, filter: 'd/of', query_params: { kind: 'x' } })
    expect(filtered.history[0]).toMatchObject({ missing_checked: 2, docs_written: 1 })
    const selected = await replicate(here(), { ...body, selector: { kind: 'y' } })
    expect(selected.history[0]).toMatchObject({ missing_checked: 1, docs_written: 0 })
  })

  it('creates a missing target when it is asked to', async () => {
    const { source, target, body } = await pair(direction)
    await source.save('a', {})
    await target.request('DELETE')
    const missing = await post(here(), body)
    expect(missing.as<{ error: string }>().error).toBe('db_not_found')
    expect(missing.status).toBe(direction === 'pull' ? 404 : 500)
    await replicate(here(), { ...body, create_target: true })
    await expectSame(source, target)
  })

  it('brings many documents', async () => {
    const { source, target, body } = await pair(direction)
    const docs = Array.from({ length: 3000 }, (_, i) => ({ _id: `doc-${i}`, i, text: 'x'.repeat(100) }))
    await source.post('_bulk_docs', { docs })
    const reply = await replicate(here(), body)
    expect(reply.history[0]).toMatchObject({ docs_read: 3000, docs_written: 3000, recorded_seq: 3000 })
    expect((await target.info()).doc_count).toBe(3000)
  })
})

describe('a peer that is not there', () => {
  it.each<Direction>(['pull', 'push', 'between'])('creates no target where it is the source: %s', async (direction) => {
    const { source, target, body } = await pair(direction)
    await source.request('DELETE')
    await target.request('DELETE')
    const shown = direction === 'push' ? source.name : `${source.url}/`
    for (const create_target of [false, true]) {
      const reply = await post(here(), { ...body, create_target })
      expect([reply.status, reply.json]).toEqual([
        direction === 'push' ? 404 : 500,
        { error: 'db_not_found', reason: `could not open ${shown}` },
      ])
    }
    expect((await target.request('GET')).status).toBe(404)
    const filtered = await post(here(), { ...body, filter: 'd/f' })
    expect([filtered.status, filtered.json]).toEqual([
      500,
      { error: 'error', reason: `Could not open source database \`${shown}\`: could not open ${shown}` },
    ])
  })

  it('is reported with its URL when the filter would have to be read from it', async () => {
    const { name } = await here().database()
    const body = { source: 'http://127.0.0.1:1/x', target: name, filter: 'd/f', retries_per_request: 0 }
    const reply = await post(here(), body)
    expect([reply.status, reply.json]).toMatchObject([500, { error: 'error' }])
    expect(reply.as<{ reason: string }>().reason).toMatch(
      /^Could not open source database `http:\/\/127\.0\.0\.1:1\/x\/`: /,
    )
  })

  it('is reported with its URL, the password hidden', async () => {
    const target = await here().database()
    const { host } = there()
    const missing = await post(here(), { source: `http://${host}/nothing`, target: target.name })
    expect(missing.status).toBe(500)
    expect(missing.json).toEqual({ error: 'db_not_found', reason: `could not open http://${host}/nothing/` })
    const stranger = await post(here(), { source: `http://joe:secret@${host}/nothing`, target: target.name })
    expect(stranger.status).toBe(500)
    expect(stranger.json).toEqual({
      error: 'unauthorized',
      reason: `unauthorized to access or create database http://joe:*****@${host}/nothing/`,
    })
  })
})
