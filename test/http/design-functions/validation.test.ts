import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()

/** Refuses documents that ask for it, and returns its arguments in the refusal. */
const TELLING = `function (newDoc, oldDoc, userCtx, secObj) {
  if (newDoc.tell) throw { forbidden: { newDoc: newDoc, oldDoc: oldDoc, userCtx: userCtx, secObj: secObj } };
}`

const NO_BAD_ONES = `function (newDoc) {
  if (newDoc.bad) throw { forbidden: 'Nothing bad here.' };
}`

interface Told {
  newDoc: Record<string, unknown>
  oldDoc: Record<string, unknown> | null
  userCtx: unknown
  secObj: unknown
}

async function databaseWith(...sources: string[]): Promise<TestDatabase> {
  const db = await client().database()
  for (const [i, source] of sources.entries()) await db.save(`_design/v${i}`, { validate_doc_update: source })
  return db
}

function told(reply: Reply): Told {
  expect(reply.status, reply.text).toBe(403)
  return reply.as<{ reason: Told }>().reason
}

function expectForbidden(reply: Reply): void {
  expectRefusal(reply, 403, 'forbidden', 'Nothing bad here.')
}

describe('a validation function', () => {
  it('allows what it does not refuse, whatever it returns', async () => {
    const db = await databaseWith('function () { return false }')
    await db.save('a', { x: 1 })
  })

  it.each([
    ['PUT', (db: TestDatabase) => db.put('a', { bad: true })],
    ['POST', (db: TestDatabase) => db.post('', { _id: 'a', bad: true })],
    ['an update', async (db: TestDatabase) => db.put('a', { _rev: await db.save('a', {}), bad: true })],
    [
      'a deletion by PUT',
      async (db: TestDatabase) => db.put('a', { _rev: await db.save('a', {}), _deleted: true, bad: 1 }),
    ],
  ])('refuses %s', async (_, write) => {
    const db = await databaseWith(NO_BAD_ONES)
    expectForbidden(await write(db))
    expect((await db.get('_all_docs?include_docs=true')).text).not.toContain('"bad"')
  })

  it('refuses a DELETE', async () => {
    const db = await databaseWith("function (newDoc) { if (newDoc._deleted) throw { forbidden: 'Stay.' } }")
    const rev = await db.save('a', {})
    expectRefusal(await db.delete(`a?rev=${rev}`), 403, 'forbidden', 'Stay.')
    expect((await db.get('a')).status).toBe(200)
  })

  it('refuses a COPY', async () => {
    const db = await databaseWith("function (newDoc) { if (newDoc._id === 'b') throw { forbidden: 'No b.' } }")
    await db.save('a', {})
    expectRefusal(await db.copy('a', 'b'), 403, 'forbidden', 'No b.')
    expect((await db.copy('a', 'c')).status).toBe(201)
  })

  it('refuses attachments, put and deleted', async () => {
    const source = `function (newDoc, oldDoc) {
      var count = function (doc) { return Object.keys((doc && doc._attachments) || {}).length };
      if (count(newDoc) > 1) throw { forbidden: 'One is enough.' };
      if (count(newDoc) < count(oldDoc)) throw { forbidden: 'It stays.' };
    }`
    const db = await databaseWith(source)
    const put = await db.put('a/one', 'x', { 'Content-Type': 'text/plain' })
    expect(put.status).toBe(201)
    const more = await db.put(`a/two?rev=${put.rev}`, 'x', { 'Content-Type': 'text/plain' })
    expectRefusal(more, 403, 'forbidden', 'One is enough.')
    expectRefusal(await db.delete(`a/one?rev=${put.rev}`), 403, 'forbidden', 'It stays.')
  })

  it('refuses entries of a bulk request in their places, and the others are stored', async () => {
    const db = await databaseWith(NO_BAD_ONES)
    const reply = await db.post('_bulk_docs', { docs: [{ _id: 'a' }, { _id: 'b', bad: 1 }, { _id: 'c' }] })
    expect([reply.status, reply.json]).toEqual([
      201,
      [
        { ok: true, id: 'a', rev: expect.any(String) },
        { id: 'b', error: 'forbidden', reason: 'Nothing bad here.' },
        { ok: true, id: 'c', rev: expect.any(String) },
      ],
    ])
  })

  it('refuses an all-or-nothing request as a whole, and names the refused documents', async () => {
    const db = await databaseWith(NO_BAD_ONES)
    const rev = await db.save('old', {})
    const docs = [{ _id: 'a' }, { _id: 'b', bad: 1 }, { _id: 'old', _rev: rev, bad: 1 }]
    const before = await db.state()
    const reply = await db.post('_bulk_docs', { all_or_nothing: true, docs })
    expect(reply.status).toBe(417)
    expect(reply.text).toBe(
      `[{"id":"b","rev":"0-","error":"forbidden","reason":"Nothing bad here."},` +
        `{"id":"old","rev":"${rev}","error":"forbidden","reason":"Nothing bad here."}]\n`,
    )
    expect(await db.state()).toEqual(before)
    expect((await db.post('_bulk_docs', { all_or_nothing: true, docs: [{ _id: 'a' }] })).status).toBe(201)
  })

  it('refuses replicated revisions, each with its own', async () => {
    const db = await databaseWith(NO_BAD_ONES)
    const docs = [
      { _id: 'a', _rev: '1-a' },
      { _id: 'b', _rev: '3-b', bad: 1 },
    ]
    const reply = await db.post('_bulk_docs', { new_edits: false, docs })
    expect([reply.status, reply.json]).toEqual([
      201,
      [
        { ok: true, id: 'a', rev: '1-a' },
        { id: 'b', rev: '3-b', error: 'forbidden', reason: 'Nothing bad here.' },
      ],
    ])
    expectForbidden(await db.put('b?new_edits=false', { _id: 'b', _rev: '3-b', bad: 1 }))
    expect((await db.get('b')).status).toBe(404)
  })

  it('does not run again for a known revision', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'a', _rev: '1-a', bad: 1 })
    await db.save('_design/v', { validate_doc_update: NO_BAD_ONES })
    await db.replicate({ _id: 'a', _rev: '1-a', bad: 1 })
  })

  it('keeps what batch=ok accepted out of the database', async () => {
    const db = await databaseWith(NO_BAD_ONES)
    expect((await db.put('a?batch=ok', { bad: 1 })).status).toBe(202)
    expect((await db.put('b?batch=ok', {})).status).toBe(202)
    expect((await db.post('_ensure_full_commit', '')).status).toBe(201)
    expect((await db.get('a')).status).toBe(404)
    expect((await db.get('b')).status).toBe(200)
  })

  it('does not apply to design documents and local documents', async () => {
    const db = await databaseWith("function () { throw { forbidden: 'Nothing at all.' } }")
    await db.save('_design/other', { bad: 1 })
    await db.save('_local/x', { bad: 1 })
    expect((await db.post('_bulk_docs', { docs: [{ _id: '_design/more' }] })).json).toMatchObject([{ ok: true }])
    expectRefusal(await db.put('x', {}), 403, 'forbidden', 'Nothing at all.')
  })

  it('is not called for a conflict', async () => {
    const db = await databaseWith(NO_BAD_ONES)
    const first = await db.save('a', {})
    const second = await db.save('a', { _rev: first })
    expectConflict(await db.put('a', { bad: 1 }))
    expectConflict(await db.put('a', { _rev: first, bad: 1 }))
    expectConflict(await db.put('nosuch', { _rev: first, bad: 1 }))
    await db.remove('a', second)
    expectConflict(await db.put('a', { _rev: second, bad: 1 }))
  })

  it('applies once it is saved, and not before', async () => {
    const db = await client().database()
    await db.save('a', { bad: 1 })
    await db.save('_design/v', { validate_doc_update: NO_BAD_ONES })
    expectForbidden(await db.put('b', { bad: 1 }))
    expect((await db.get('a')).status).toBe(200)
  })

  it.each([
    ['deleted', (db: TestDatabase, rev: string) => db.delete(`_design/v0?rev=${rev}`)],
    ['deleted by a PUT', (db: TestDatabase, rev: string) => db.put('_design/v0', { _rev: rev, _deleted: true })],
    ['saved without it', (db: TestDatabase, rev: string) => db.put('_design/v0', { _rev: rev })],
    [
      'saved with null',
      (db: TestDatabase, rev: string) => db.put('_design/v0', { _rev: rev, validate_doc_update: null }),
    ],
    ['purged', async (db: TestDatabase, rev: string) => db.post('_purge', { '_design/v0': [rev] })],
  ])('no longer applies when its design document is %s', async (_, end) => {
    const db = await databaseWith(NO_BAD_ONES)
    expectForbidden(await db.put('a', { bad: 1 }))
    const { _rev: rev } = (await db.get('_design/v0')).as<{ _rev: string }>()
    expect((await end(db, rev)).status).toBeLessThan(300)
    await db.save('a', { bad: 1 })
  })

  it('applies in its new form once it changes', async () => {
    const db = await databaseWith(NO_BAD_ONES)
    const { _rev } = (await db.get('_design/v0')).as<{ _rev: string }>()
    const other = "function (newDoc) { if (!newDoc.bad) throw { forbidden: 'Only bad ones.' } }"
    await db.save('_design/v0', { _rev, validate_doc_update: other })
    await db.save('a', { bad: 1 })
    expectRefusal(await db.put('b', {}), 403, 'forbidden', 'Only bad ones.')
  })

  it('must pass like all others, and the first refusal is reported', async () => {
    const db = await databaseWith(NO_BAD_ONES, "function (newDoc) { if (newDoc.worse) throw { forbidden: 'Worse.' } }")
    expectForbidden(await db.put('a', { bad: 1 }))
    expectRefusal(await db.put('a', { worse: 1 }), 403, 'forbidden', 'Worse.')
    // By falling ids of the design documents.
    expectRefusal(await db.put('a', { bad: 1, worse: 1 }), 403, 'forbidden', 'Worse.')
    await db.save('a', {})
  })

  it('sees modules of its design document, and the document as this', async () => {
    const db = await client().database()
    await db.save('_design/v', {
      limit: 3,
      lib: { check: 'exports.tooMany = function (n, limit) { return n > limit }' },
      validate_doc_update: `function (newDoc) {
        if (require('lib/check').tooMany(newDoc.n, this.limit)) throw { forbidden: 'Too many.' };
      }`,
    })
    await db.save('a', { n: 3 })
    expectRefusal(await db.put('b', { n: 4 }), 403, 'forbidden', 'Too many.')
  })
})

describe('the arguments of a validation function', () => {
  it('of a new document', async () => {
    const db = await databaseWith(TELLING)
    const { newDoc, oldDoc, userCtx, secObj } = told(await db.put('a', { tell: 1, n: { deep: [1] } }))
    expect(newDoc).toEqual({ _id: 'a', tell: 1, n: { deep: [1] }, _revisions: { start: 0, ids: [] } })
    expect([oldDoc, secObj]).toEqual([null, {}])
    expect(userCtx).toEqual({ db: db.name, name: null, roles: ['_admin'] })
  })

  it('of an update: the parent that it names, and its document', async () => {
    const db = await databaseWith(TELLING)
    const first = await db.save('a', { n: 1 })
    const second = await db.save('a', { _rev: first, n: 2 })
    const { newDoc, oldDoc } = told(await db.put('a', { _rev: second, tell: 1 }))
    const [, hash] = second.split('-')
    expect(newDoc).toEqual({ _id: 'a', _rev: second, tell: 1, _revisions: { start: 2, ids: [hash] } })
    const ids = [hash, first.split('-')[1]]
    expect(oldDoc).toEqual({ _id: 'a', _rev: second, n: 2, _revisions: { start: 2, ids } })
  })

  it('of a deletion, and of what follows it', async () => {
    const source = `function (newDoc, oldDoc) {
      if (newDoc._deleted && oldDoc.kept) throw { forbidden: { newDoc: newDoc, oldDoc: oldDoc } };
      if (newDoc.tell) throw { forbidden: { newDoc: newDoc, oldDoc: oldDoc } };
    }`
    const db = await databaseWith(source)
    const kept = await db.save('kept', { kept: true })
    expect(told(await db.delete(`kept?rev=${kept}`)).newDoc).toMatchObject({ _rev: kept, _deleted: true })
    const { tombstone } = await db.saveAndRemove('gone', {})
    expect(told(await db.put('gone', { tell: 1 }))).toMatchObject({
      oldDoc: null,
      newDoc: { _revisions: { start: 0 } },
    })
    const { oldDoc } = told(await db.put('gone', { tell: 1, _rev: tombstone }))
    expect(oldDoc).toMatchObject({ _id: 'gone', _rev: tombstone, _deleted: true })
  })

  it('of attachments: stubs, on both sides', async () => {
    const db = await databaseWith(TELLING)
    const data = Buffer.from('hello').toString('base64')
    const rev = await db.save('a', { _attachments: { old: { data, content_type: 'text/plain' } } })
    const attachments = { old: { stub: true }, new: { data, content_type: 'image/png' } }
    const { newDoc, oldDoc } = told(await db.put('a', { _rev: rev, tell: 1, _attachments: attachments }))
    const digest = 'md5-XUFAKrxLKna5cZ2REBfFkg=='
    const old = { content_type: 'text/plain', revpos: 1, digest, length: 5, stub: true }
    expect(oldDoc?._attachments).toEqual({ old })
    expect(newDoc._attachments).toEqual({ old, new: { ...old, content_type: 'image/png', revpos: 2 } })
  })

  it('of a replicated revision: itself, and the nearest ancestor that is stored', async () => {
    const db = await databaseWith(TELLING)
    const revisions = (start: number, ...ids: string[]) => ({ _revisions: { start, ids } })
    const alone = await db.put('a?new_edits=false', { _id: 'a', ...revisions(3, 'c', 'b', 'a'), tell: 1 })
    expect(told(alone)).toMatchObject({ newDoc: { _rev: '3-c', ...revisions(3, 'c', 'b', 'a') }, oldDoc: null })
    await db.replicate({ _id: 'a', ...revisions(1, 'a'), n: 1 })
    const grown = await db.put('a?new_edits=false', { _id: 'a', ...revisions(3, 'c', 'b', 'a'), tell: 1 })
    expect(told(grown).oldDoc).toEqual({ _id: 'a', _rev: '1-a', n: 1, ...revisions(1, 'a') })
  })

  it('of a branch that is made all or nothing: its parent where that is a leaf', async () => {
    const db = await databaseWith(TELLING)
    const first = await db.save('a', { n: 1 })
    const second = await db.save('a', { _rev: first, n: 2 })
    const oldOf = async (document: object) => {
      const reply = await db.post('_bulk_docs', { all_or_nothing: true, docs: [{ _id: 'a', tell: 1, ...document }] })
      expect(reply.status).toBe(417)
      return reply.as<{ reason: Told }[]>()[0]?.reason.oldDoc
    }
    expect(await oldOf({ _rev: second })).toMatchObject({ _rev: second, n: 2 })
    expect(await oldOf({ _rev: first })).toBeNull()
    expect(await oldOf({})).toBeNull()
  })

  it('of the security object', async () => {
    const db = await databaseWith(TELLING)
    const security = { admins: { names: [], roles: ['boss'] }, members: { names: [], roles: [] }, more: [1] }
    await db.put('_security', security)
    expect(told(await db.put('a', { tell: 1 })).secObj).toEqual(security)
  })
})

describe('what a validation function throws', () => {
  it.each([
    ["{ forbidden: 'No.' }", 403, 'forbidden', 'No.'],
    ["{ unauthorized: 'Log in.' }", 401, 'unauthorized', 'Log in.'],
    ['{ forbidden: { because: [1] } }', 403, 'forbidden', { because: [1] }],
    ["new TypeError('That is none.')", 500, 'TypeError', 'That is none.'],
    ["'just a text'", 500, 'unknown_error', 'just a text'],
  ])('%s', async (thrown, status, error, reason) => {
    const db = await databaseWith(`function () { throw ${thrown} }`)
    const reply = await db.put('a', {})
    expect([reply.status, reply.json]).toEqual([status, { error, reason }])
    expect((await db.get('a')).status).toBe(404)
  })

  it('an object with more than one member is an error, and nothing is written', async () => {
    const db = await databaseWith("function () { throw { forbidden: 'x', more: 1 } }")
    const reply = await db.put('a', {})
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([500, 'unknown_error'])
    expect((await db.get('a')).status).toBe(404)
  })

  it('a function that does not compile stops all writes except those that fix it', async () => {
    const db = await databaseWith('function (newDoc) { return')
    const reply = await db.put('a', {})
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([500, 'compilation_error'])
    const bulk = await db.post('_bulk_docs', { docs: [{ _id: 'a' }, { _id: '_design/x' }] })
    expect(bulk.json).toMatchObject([{ id: 'a', error: 'compilation_error' }, { ok: true }])
    const { _rev } = (await db.get('_design/v0')).as<{ _rev: string }>()
    await db.remove('_design/v0', _rev)
    await db.save('a', {})
  })

  it('one in an unknown language stops writes too', async () => {
    const db = await client().database()
    await db.save('_design/v', { language: 'klingon', validate_doc_update: 'x' })
    expectRefusal(await db.put('a', {}), 500, 'unknown_query_language', 'klingon')
  })
})

describe('a validation function among many writers', () => {
  it('validates every write that began after it was saved', async () => {
    const db = await client().database()
    await db.save('_design/v', { validate_doc_update: 'function () {}' })
    const { _rev } = (await db.get('_design/v')).as<{ _rev: string }>()
    let isSaved = false
    let isOver = false
    const after: number[] = []
    const writers = Array.from({ length: 16 }, async (_, writer) => {
      for (let n = 0; !isOver; n++) {
        const beganAfter = isSaved
        const path = `${writer}-${n}`
        const reply = await (n % 2 === 0
          ? db.put(path, { bad: 1 })
          : db.put(`${path}?new_edits=false`, { _id: path, _rev: '1-a', bad: 1 }))
        if (beganAfter) after.push(reply.status)
      }
    })
    await until(async () => (await db.info()).doc_count > 100)
    await db.save('_design/v', { _rev, validate_doc_update: NO_BAD_ONES })
    isSaved = true
    await until(async () => after.length > 100)
    isOver = true
    await Promise.all(writers)
    expect(new Set(after)).toEqual(new Set([403]))
  })
})
