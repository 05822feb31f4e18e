/** ETags of view queries: what changes them, what does not, and conditional requests. */
import { describe, expect, it } from 'vitest'
import { Client, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { fill, putViews } from '../../support/views.ts'

const client = serverOfFile()

const VIEWS = {
  foo: { map: 'function (doc) { if ("foo" in doc) emit(doc.foo, 1) }', reduce: '_sum' },
  bar: { map: 'function (doc) { if ("bar" in doc) emit(doc.bar, 1) }' },
}

async function twoViews(): Promise<TestDatabase> {
  const db = await client().database()
  await fill(db, [
    { _id: 'f1', foo: 1 },
    { _id: 'f2', foo: 2 },
    { _id: 'b1', bar: 1 },
  ])
  await putViews(db, VIEWS)
  return db
}

async function tagOf(db: TestDatabase, path: string): Promise<string> {
  const reply = await db.get(`_design/d/_view/${path}`)
  expect(reply.status, reply.text).toBe(200)
  expect(reply.headers.etag).toMatch(/^"[0-9A-Z]{10,26}"$/)
  return reply.headers.etag ?? ''
}

describe('the ETag of a view query', () => {
  it('saves sending the reply again', async () => {
    const db = await twoViews()
    const etag = await tagOf(db, 'foo')
    for (const known of [etag, `"other", ${etag}`, `"other" ${etag}`]) {
      const reply = await db.get('_design/d/_view/foo', { 'If-None-Match': known })
      expect([reply.status, reply.text, reply.headers.etag]).toEqual([304, '', etag])
    }
    for (const unknown of ['*', `W/${etag}`, '"other"', etag.slice(1, -1)]) {
      expect((await db.get('_design/d/_view/foo', { 'If-None-Match': unknown })).status).toBe(200)
    }
    const head = await db.head('_design/d/_view/foo', { 'If-None-Match': etag })
    expect(head.status).toBe(304)
  })

  it('stays while the rows of the view stay', async () => {
    const db = await twoViews()
    const foo = await tagOf(db, 'foo')
    const bar = await tagOf(db, 'bar')
    await db.save('b2', { bar: 2 })
    expect(await tagOf(db, 'foo')).toBe(foo)
    expect(await tagOf(db, 'bar')).not.toBe(bar)
    await db.save('f3', { foo: 3 })
    expect(await tagOf(db, 'foo')).not.toBe(foo)
  })

  it('is another for other views, parameters and keys', async () => {
    const db = await twoViews()
    const tags = [
      await tagOf(db, 'foo'),
      await tagOf(db, 'bar'),
      await tagOf(db, 'foo?reduce=false'),
      await tagOf(db, 'foo?group=true'),
      await tagOf(db, 'bar?limit=1'),
      await tagOf(db, 'bar?keys=[1]'),
      await tagOf(db, 'bar?keys=[2]'),
    ]
    expect(new Set(tags).size).toBe(tags.length)
    expect(await tagOf(db, 'foo?nonsense=1&reduce=true&group=false')).not.toBe('')
    const posted = await db.post('_design/d/_view/bar', { keys: [2] })
    expect(posted.headers.etag).toBe(tags.at(-1))
  })

  it('with documents changes with every write', async () => {
    const db = await twoViews()
    const path = 'foo?reduce=false&include_docs=true'
    const etag = await tagOf(db, path)
    expect(await tagOf(db, path)).toBe(etag)
    await db.save('b2', { bar: 2 })
    expect(await tagOf(db, path)).not.toBe(etag)
  })

  it('changes with what a purge removes', async () => {
    const db = await twoViews()
    const rev = await db.save('f4', { foo: 4 })
    const foo = await tagOf(db, 'foo')
    const bar = await tagOf(db, 'bar')
    expect((await db.post('_purge', { f4: [rev] })).status).toBe(200)
    expect(await tagOf(db, 'foo')).not.toBe(foo)
    expect(await tagOf(db, 'bar')).toBe(bar)
  })

  it('changes with the definition, and is restored with it', async () => {
    const db = await twoViews()
    const etag = await tagOf(db, 'bar')
    const rev = (await db.get('_design/d')).as<{ _rev: string }>()._rev
    const changed = await db.save('_design/d', { _rev: rev, views: { ...VIEWS, more: { map: 'function () {}' } } })
    expect(await tagOf(db, 'bar')).not.toBe(etag)
    await db.save('_design/d', { _rev: changed, views: VIEWS, lists: { l: 'function () {}' } })
    expect(await tagOf(db, 'bar')).toBe(etag)
  })

  it('differs for another database of the same name', async () => {
    const db = await twoViews()
    const etag = await tagOf(db, 'bar')
    await db.request('DELETE')
    await db.request('PUT')
    await fill(db, [
      { _id: 'f1', foo: 1 },
      { _id: 'f2', foo: 2 },
      { _id: 'b1', bar: 100 },
    ])
    await putViews(db, VIEWS)
    expect(await tagOf(db, 'bar')).not.toBe(etag)
  })

  it('survives a restart', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = new Client(first.url)
    const db = await before.database()
    await fill(db, [{ _id: 'b1', bar: 1 }])
    await putViews(db, VIEWS)
    const etag = await tagOf(db, 'bar')
    before.close()
    await first.close()
    const second = await startService({ dir })
    const after = new Client(second.url)
    const reply = await after.request('GET', `/${db.name}/_design/d/_view/bar`)
    expect([reply.status, reply.headers.etag]).toEqual([200, etag])
    after.close()
  })
})
