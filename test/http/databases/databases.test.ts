import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, serverOfFile, TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const client = serverOfFile()

/** The members of the interface, in its order. */
const INFORMATION = [
  'db_name',
  'doc_count',
  'doc_del_count',
  'update_seq',
  'purge_seq',
  'compact_running',
  'disk_size',
  'data_size',
  'instance_start_time',
  'disk_format_version',
  'committed_update_seq',
]

function illegalName(name: string): string {
  return `Name: '${name}'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / are allowed. Must begin with a letter.`
}

describe('PUT /{db}', () => {
  it('creates a database and returns its Location', async () => {
    const reply = await client().request('PUT', '/made')
    expect([reply.status, reply.text]).toEqual([201, '{"ok":true}\n'])
    expect(reply.headers.location).toBe(`http://${client().host}/made`)
    expect(reply.headers['cache-control']).toBe('must-revalidate')
    expect(reply.headers['content-length']).toBe('12')
    expect((await client().request('GET', '/made')).status).toBe(200)
  })

  it('refuses the name of an existing one', async () => {
    const db = await client().database()
    await db.save('kept', {})
    const reply = await db.request('PUT')
    expectRefusal(reply, 412, 'file_exists', 'The database could not be created, the file already exists.')
    expect((await db.info()).doc_count).toBe(1)
  })

  it.each([['a'], ['a0'], ['abc_$()+-'], ['with-all_of-them'], ['z9(x)']])('accepts the name %s', async (name) => {
    const reply = await client().request('PUT', `/${name}`)
    expect(reply.status).toBe(201)
    expect((await client().request('GET', `/${name}`)).json).toMatchObject({ db_name: name })
  })

  it.each([
    ['slash%2Fed', 'slash/ed', 'slash%2Fed'],
    ['slash%2flow', 'slash/low', 'slash%2Flow'],
    ['a%2Bb', 'a+b', 'a%2Bb'],
    ['plain+plus', 'plain+plus', 'plain%2Bplus'],
    ['doll%24ar', 'doll$ar', 'doll%24ar'],
    ['par(en)', 'par(en)', 'par%28en%29'],
    ['%65scaped', 'escaped', 'escaped'],
  ])('maps /%s to the database %s and returns %s in Location', async (path, name, location) => {
    const reply = await client().request('PUT', `/${path}`)
    expect(reply.status).toBe(201)
    expect(reply.headers.location).toBe(`http://${client().host}/${location}`)
    expect((await client().request('GET', `/${location}`)).json).toMatchObject({ db_name: name })
    expect((await client().request('GET', '/_all_dbs')).json).toContain(name)
  })

  it('creates a database with a slash in its name, beside the one named like its first part', async () => {
    await client().request('PUT', '/upper')
    await client().request('PUT', '/upper%2Flower')
    expect((await client().request('PUT', '/upper%2Flower/doc', { body: {} })).status).toBe(201)
    expect((await client().request('GET', '/upper%2Flower')).json).toMatchObject({ doc_count: 1 })
    expect((await client().request('GET', '/upper')).json).toMatchObject({ doc_count: 0 })
    await client().request('DELETE', '/upper')
    expect((await client().request('GET', '/upper%2Flower')).status).toBe(200)
  })

  it.each([
    ['UPPER', 'UPPER'],
    ['aUpper', 'aUpper'],
    ['0digit', '0digit'],
    ['-dash', '-dash'],
    ['$dollar', '$dollar'],
    ['dot.ted', 'dot.ted'],
    ['star*', 'star*'],
    ['a%20b', 'a b'],
    ['a%0Ab', 'a\nb'],
    ['a%0A', 'a\n'],
    ['%C3%A9', 'é'],
    ['a%C3%A9', 'aé'],
    ['%2Fa', '/a'],
    ['a%00', 'a\u0000'],
    ['a%5C..%5Cb', 'a\\..\\b'],
    ['..%2F..%2Fetc', '../../etc'],
    ['%2E%2E', '..'],
    ['_nosuch', '_nosuch'],
  ])('refuses the name /%s', async (path, name) => {
    const before = (await client().request('GET', '/_all_dbs')).text
    expectRefusal(await client().request('PUT', `/${path}`), 400, 'illegal_database_name', illegalName(name))
    expect((await client().request('GET', '/_all_dbs')).text).toBe(before)
  })

  it('ignores a body, and the parameters of clustered servers', async () => {
    expect((await client().request('PUT', '/with-body', { body: '{not json' })).status).toBe(201)
    expect((await client().request('PUT', '/with-parameters?q=8&n=3&partitioned=false')).status).toBe(201)
  })

  it('ignores empty segments of the path', async () => {
    expect((await client().request('PUT', '/trailing/')).status).toBe(201)
    expect((await client().request('PUT', '//trailing//')).status).toBe(412)
  })
})

describe.each(['GET', 'HEAD', 'DELETE', 'POST'])('%s of an invalid name', (method) => {
  it.each(['_nosuch', 'UPPER', '_nosuch/doc', 'a%20b'])('/%s is refused', async (path) => {
    const options = method === 'POST' ? { body: {} } : {}
    const reply = await client().request(method, `/${path}`, options)
    expect(reply.status).toBe(400)
    if (method === 'HEAD') expect(reply.text).toBe('')
    else expect(reply.json).toMatchObject({ error: 'illegal_database_name' })
  })
})

describe('GET /{db}', () => {
  it('has the documented members, in their order', async () => {
    const db = await client().database()
    const reply = await db.get()
    expect(reply.status).toBe(200)
    const members = Object.keys(reply.as<object>())
    expect(members.filter((name) => INFORMATION.includes(name))).toEqual(INFORMATION)
    expect(reply.json).toMatchObject({
      db_name: db.name,
      doc_count: 0,
      doc_del_count: 0,
      update_seq: 0,
      purge_seq: 0,
      compact_running: false,
      disk_size: expect.any(Number),
      data_size: expect.any(Number),
      instance_start_time: expect.stringMatching(/^\d{16,}$/),
      disk_format_version: 6,
      committed_update_seq: 0,
    })
    expect(reply.headers['cache-control']).toBe('must-revalidate')
  })

  it('returns its start time in microseconds since the epoch', async () => {
    const before = Date.now() * 1000 - 1_000_000
    const opened = Number((await (await client().database()).info()).instance_start_time)
    expect(opened).toBeGreaterThan(before)
    expect(opened).toBeLessThan(Date.now() * 1000 + 1_000_000)
  })

  it.each(['GET', 'HEAD', 'POST'])('of a missing database answers 404 to %s', async (method) => {
    const reply = await client().request(method, '/absent', method === 'POST' ? { body: {} } : {})
    if (method === 'HEAD') expect([reply.status, reply.text]).toEqual([404, ''])
    else expectRefusal(reply, 404, 'not_found', 'no_db_file')
  })

  it.each([
    ['GET', 'doc'],
    ['PUT', 'doc'],
    ['DELETE', 'doc'],
    ['GET', '_all_docs'],
    ['POST', '_bulk_docs'],
    ['POST', '_revs_diff'],
    ['GET', '_local/x'],
    ['GET', '_design/x'],
    ['GET', '_revs_limit'],
    ['GET', '_security'],
  ])('of a missing database answers 404 to %s of its %s', async (method, path) => {
    const options = method === 'PUT' || method === 'POST' ? { body: {} } : {}
    expectRefusal(await client().request(method, `/absent/${path}`, options), 404, 'not_found', 'no_db_file')
  })

  it('ignores empty segments of the path', async () => {
    const db = await client().database()
    for (const path of [`/${db.name}/`, `//${db.name}`, `//${db.name}//`]) {
      expect((await client().request('GET', path)).json).toMatchObject({ db_name: db.name })
    }
  })
})

describe('HEAD /{db}', () => {
  it('has the head of GET and no body', async () => {
    const db = await client().database()
    const whole = await db.get()
    const head = await db.head()
    expect([head.status, head.text]).toEqual([200, ''])
    expect(head.headers['content-length']).toBe(whole.headers['content-length'])
    expect(head.headers['content-type']).toBe(whole.headers['content-type'])
  })
})

describe('DELETE /{db}', () => {
  it('removes the database with all that is in it', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const reply = await db.request('DELETE')
    expect([reply.status, reply.text]).toEqual([200, '{"ok":true}\n'])
    expectRefusal(await db.get(), 404, 'not_found', 'no_db_file')
    expectRefusal(await db.get('doc'), 404, 'not_found', 'no_db_file')
    expect((await client().request('GET', '/_all_dbs')).json).not.toContain(db.name)
    await db.request('PUT')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 0, update_seq: 0 })
    expectRefusal(await db.get('doc'), 404, 'not_found', 'missing')
  })

  it('is a new instance when it is created again', async () => {
    const db = await client().database()
    const before = (await db.info()).instance_start_time
    await db.request('DELETE')
    await db.request('PUT')
    expect((await db.info()).instance_start_time).not.toBe(before)
  })

  it('of a missing one answers 404', async () => {
    expectRefusal(await client().request('DELETE', '/absent'), 404, 'not_found', 'missing')
  })

  it('refuses a revision: a document was meant', async () => {
    const db = await client().database()
    const reason = 'You tried to DELETE a database with a ?rev= parameter. Did you mean to DELETE a document instead?'
    expectRefusal(await db.request('DELETE', '?rev=1-abc'), 400, 'bad_request', reason)
    expectRefusal(await client().request('DELETE', `/${db.name}/?rev=1-abc`), 400, 'bad_request', reason)
    expectRefusal(await client().request('DELETE', '/absent?rev=1-abc'), 400, 'bad_request', reason)
    expect((await db.get()).status).toBe(200)
  })
})

describe('on disk', () => {
  it('a database is unchanged after a restart, with a new start time', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = new TestDatabase(new Client(first.url), 'kept%2Fhere')
    await before.request('PUT')
    await before.save('a', { n: 1 })
    const { live } = await before.saveAndRemove('b', {})
    await before.save('_local/l', { n: 2 })
    await before.put('_security', { note: 'kept' })
    await before.put('_revs_limit', '7')
    const state = await before.state()
    const { instance_start_time } = await before.info()
    before.client.close()
    await first.close()

    const second = await startService({ dir })
    const after = new TestDatabase(new Client(second.url), 'kept%2Fhere')
    expect((await after.client.request('GET', '/_all_dbs')).json).toEqual(['_replicator', '_users', 'kept/here'])
    expect(await after.state()).toEqual(state)
    expect((await after.info()).instance_start_time).not.toBe(instance_start_time)
    expectRefusal(await after.get('b'), 404, 'not_found', 'deleted')
    expect((await after.get(`b?rev=${live}`)).status).toBe(200)
    expect((await after.get('_local/l')).json).toEqual({ _id: '_local/l', _rev: '0-1', n: 2 })
    expect((await after.get('_security')).json).toEqual({ note: 'kept' })
    expect((await after.get('_revs_limit')).text).toBe('7\n')
    after.client.close()
  })

  it('a deleted database stays deleted after a restart', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = new Client(first.url)
    await before.request('PUT', '/gone')
    await before.request('PUT', '/kept')
    await before.request('DELETE', '/gone')
    before.close()
    await first.close()
    const second = await startService({ dir })
    const after = new Client(second.url)
    expect((await after.request('GET', '/_all_dbs')).json).toEqual(['_replicator', '_users', 'kept'])
    expectRefusal(await after.request('GET', '/gone'), 404, 'not_found', 'no_db_file')
    after.close()
  })

  it('data is never larger than the file', async () => {
    const { url } = await startService()
    const db = await new Client(url).database()
    await db.save('a', { text: 'x'.repeat(100_000) })
    await db.compact()
    const { disk_size, data_size } = await db.info()
    expect(disk_size).toBeGreaterThan(100_000)
    expect(data_size).toBeLessThanOrEqual(disk_size)
  })
})
