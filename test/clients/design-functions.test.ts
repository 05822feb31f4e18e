/** What people do with the functions of design documents through nano and PouchDB, by the clients as they are. */
import { createRequire } from 'node:module'
import nano, { type DocumentScope } from 'nano'
import { describe, expect, it } from 'vitest'
import { startService } from '../support/service.ts'

const DESIGN = {
  views: { by_n: { map: 'function (doc) { if (doc.n) emit(doc.n, null) }' } },
  shows: { name: "function (doc) { return { json: { name: doc ? doc.name : 'nobody' } } }" },
  lists: {
    keys: `function () {
      var row, keys = [];
      start({ headers: { 'Content-Type': 'application/json' } });
      while (row = getRow()) keys.push(row.key);
      return JSON.stringify(keys);
    }`,
  },
  updates: {
    rename: `function (doc, req) {
      var sent = JSON.parse(req.body);
      doc = doc || { _id: req.id };
      doc.name = sent.name;
      return [doc, { json: { named: doc.name } }];
    }`,
  },
  validate_doc_update: "function (newDoc) { if (newDoc.name === 'x') throw { forbidden: 'Not x.' } }",
}

/** What the tests use of PouchDB, which comes without types. */
interface Pouch {
  put(document: object): Promise<unknown>
  bulkDocs(documents: object[]): Promise<unknown>
}
const PouchDB: new (url: string) => Pouch = createRequire(import.meta.url)('pouchdb')

interface Body {
  name?: string
  n?: number
}

async function url(): Promise<string> {
  const service = await startService()
  return service.url.replace(/\/$/, '')
}

async function things(): Promise<DocumentScope<Body>> {
  const server = nano(await url())
  await server.db.create('things')
  const db = server.use<Body>('things')
  await server.request({ db: 'things', method: 'put', path: '_design/app', body: DESIGN })
  return db
}

describe('nano', () => {
  it('shows, lists and updates', async () => {
    const db = await things()
    await db.bulk({ docs: [1, 2, 3].map((n) => ({ _id: `d${n}`, n, name: `name ${n}` })) })
    expect(await db.show('app', 'name', 'd2')).toEqual({ name: 'name 2' })
    expect(await db.show('app', 'name', 'nosuch')).toEqual({ name: 'nobody' })
    expect(await db.viewWithList('app', 'by_n', 'keys', { descending: true })).toEqual([3, 2, 1])
    expect(await db.atomic('app', 'rename', 'd1', { name: 'another' })).toEqual({ named: 'another' })
    expect(await db.get('d1')).toMatchObject({ n: 1, name: 'another' })
  })

  it('gets the error of a validation function', async () => {
    const db = await things()
    await expect(db.insert({ name: 'x' }, 'a')).rejects.toMatchObject({
      statusCode: 403,
      error: 'forbidden',
      reason: 'Not x.',
    })
    const written = await db.bulk({ docs: [{ _id: 'a', name: 'x' }, { _id: 'b' }] })
    expect(written).toMatchObject([
      { id: 'a', error: 'forbidden', reason: 'Not x.' },
      { id: 'b', ok: true },
    ])
  })
})

describe('PouchDB', () => {
  it('gets the error of a validation function', async () => {
    const remote = new PouchDB(`${await url()}/things`)
    await remote.put({ _id: '_design/app', ...DESIGN })
    await expect(remote.put({ _id: 'a', name: 'x' })).rejects.toMatchObject({ status: 403, name: 'forbidden' })
    const written = await remote.bulkDocs([{ _id: 'a', name: 'x' }, { _id: 'b' }])
    expect(written).toMatchObject([
      { id: 'a', error: 'forbidden', name: 'forbidden' },
      { id: 'b', ok: true },
    ])
  })
})
