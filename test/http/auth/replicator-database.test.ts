/** The replicator database as far as its documents go: who sees and writes what, and what they must look like. */
import { beforeAll, describe, expect, it } from 'vitest'
import { REPLICATOR_VALIDATION } from '../../../src/auth/replicator/replication-validation.ts'
import { expectRefusal, type Reply, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

// Nothing is replicated here: the documents stay as they are written.
const client = serverOfFile({ settings: { admins: { root: 'top' }, replicator: { max_jobs: '0' } } })

const PASSWORDS: Record<string, string> = { root: 'top', mia: 'pass', eve: 'pass', dora: 'pass' }
const ROLES: Record<string, string[]> = { root: ['_admin'], mia: ['sync'], eve: [], dora: [] }

let ids = 0
const newId = () => `job-${ids++}`

function as(name: string | undefined, method: string, path: string, body?: unknown): Promise<Reply> {
  const login = name === undefined ? undefined : `Basic ${btoa(`${name}:${PASSWORDS[name]}`)}`
  return client().request(method, path, { headers: { Authorization: login }, body })
}

/** Each asks for a replication of its own: the server writes into the second document of one replication. */
function save(name: string | undefined, id: string, document: object): Promise<Reply> {
  return as(name, 'PUT', `/_replicator/${id}`, { doc_ids: [id], ...document })
}

async function read(name: string | undefined, id: string): Promise<Record<string, unknown>> {
  return (await as(name, 'GET', `/_replicator/${id}`)).as<Record<string, unknown>>()
}

const MIAS = { name: 'mia', roles: [] }
const JOB = { source: 'a', target: 'b', user_ctx: MIAS }

beforeAll(async () => {
  for (const name of ['mia', 'eve', 'dora']) {
    const user = { name, password: PASSWORDS[name], roles: ROLES[name], type: 'user' }
    expect((await as('root', 'PUT', `/_users/org.service.user:${name}`, user)).status).toBe(201)
  }
  const security = { admins: { names: ['dora'], roles: [] } }
  expect((await as('root', 'PUT', '/_replicator/_security', security)).status).toBe(200)
})

describe('the replicator database', () => {
  it('is created at the start with its design document, and again after it is deleted', async () => {
    const design = '/_replicator/_design/_replicator'
    expect((await as('root', 'GET', design)).json).toMatchObject({ validate_doc_update: REPLICATOR_VALIDATION })
    const { rev } = await save('root', 'gone', { source: 'a', target: 'b' })
    expect(rev).toMatch(/^1-/)
    const security = (await as('root', 'GET', '/_replicator/_security')).json
    expect((await as('root', 'DELETE', '/_replicator')).status).toBe(200)
    expect((await as('root', 'GET', design)).status).toBe(200)
    expect((await as('root', 'GET', '/_replicator/gone')).status).toBe(404)
    await as('root', 'PUT', '/_replicator/_security', security)
  })

  it('can be changed while the server runs', async () => {
    expect((await as('root', 'PUT', '/_config/replicator/db', '"jobs"')).status).toBe(200)
    expectRefusal(
      await as('root', 'PUT', '/jobs/x', { target: 'b' }),
      403,
      'forbidden',
      "The `source' property must exist and be either a string or an object.",
    )
    expect((await as('root', 'PUT', '/_config/replicator/db', '"_replicator"')).status).toBe(200)
  })

  it('is never the users database', async () => {
    const { url } = await startService({ settings: { admins: { root: 'top' } } })
    const headers = { Authorization: `Basic ${btoa('root:top')}` }
    const put = async (path: string, body: unknown) => {
      const reply = await fetch(url + path, { method: 'PUT', headers, body: JSON.stringify(body) })
      expect(reply.status, await reply.text()).toBeLessThan(300)
    }
    const shown = async (database: string) => (await fetch(`${url}${database}/org.service.user:ann`)).status
    await put('_users/org.service.user:ann', { name: 'ann', password: 'x', roles: [], type: 'user' })
    await put('_config/replicator/db', '_users')
    expect(await shown('_users')).toBe(404)
    await put('_config/replicator/db', 'both')
    expect(await shown('_users')).toBe(404)
    // The other way round: what was the replicator's becomes the users'.
    await put('_config/service_httpd_auth/authentication_db', 'both')
    await put('_config/replicator/db', 'jobs')
    await put('_config/replicator/db', 'both')
    const replies = await Promise.all(['_all_docs', '_changes'].map((path) => fetch(`${url}both/${path}`)))
    expect(replies.map(({ status }) => status)).toEqual([403, 401])
    // And back: each has its own again.
    await put('_config/service_httpd_auth/authentication_db', '_users')
    const changes = await Promise.all(['both', '_users'].map((name) => fetch(`${url}${name}/_changes`)))
    expect(changes.map(({ status }) => status)).toEqual([200, 401])
    expect(await shown('_users')).toBe(404)
  })

  it('keeps the members of the replicator as they are sent', async () => {
    const id = newId()
    const state = { _replication_state: 'completed', _replication_stats: { docs_read: 1 }, _replication_id: 'x' }
    await save('root', id, { ...JOB, ...state })
    expect(await read('root', id)).toMatchObject(state)
  })

  it('allows only administrators to list it and to use its design documents', async () => {
    const list = 'Only admins can access _all_docs of system databases.'
    const action = 'Only admins can access design document actions for system databases.'
    for (const name of ['mia', undefined]) {
      expectRefusal(await as(name, 'GET', '/_replicator/_all_docs'), 403, 'forbidden', list)
      expectRefusal(await as(name, 'GET', '/_replicator/_design/_replicator/_view/x'), 403, 'forbidden', action)
      const design = await as(name, 'PUT', '/_replicator/_design/x', {})
      expectRefusal(design, 401, 'unauthorized', 'You are not a db or server admin.')
    }
    for (const name of ['root', 'dora']) {
      expect((await as(name, 'GET', '/_replicator/_all_docs')).status).toBe(200)
    }
  })
})

describe('the owner of a replication document', () => {
  it('is its writer', async () => {
    const id = newId()
    await save('mia', id, JOB)
    expect(await read('mia', id)).toMatchObject({ ...JOB, owner: 'mia' })
  })

  it('may change it, and so may administrators, who do not become its owner', async () => {
    const id = newId()
    const { rev } = await save('mia', id, JOB)
    const foreign = "Can't update replication documents from other users."
    const eves = { ...JOB, _rev: rev, user_ctx: { name: 'eve', roles: [] } }
    for (const owner of [undefined, 'mia', 'eve']) {
      expectRefusal(await save('eve', id, { ...eves, owner }), 403, 'forbidden', foreign)
    }
    expectRefusal(await save('mia', newId(), { ...JOB, owner: 'eve' }), 403, 'forbidden', foreign)
    const { rev: second } = await save('mia', id, { ...JOB, _rev: rev, continuous: true })
    await save('root', id, { ...JOB, _rev: second, owner: 'mia' })
    expect(await read('root', id)).toMatchObject({ owner: 'mia' })
  })

  it('is the administrator when there was none', async () => {
    const id = newId()
    await save('root', id, { ...JOB, owner: null })
    expect(await read('root', id)).toMatchObject({ owner: 'root' })
  })

  it('is empty if the writer is anonymous', async () => {
    const id = newId()
    const anonymous = { source: 'http://me:secret@there/a', target: 'b', user_ctx: { name: null, roles: [] } }
    const { rev } = await save(undefined, id, anonymous)
    expect(await read('root', id)).toMatchObject({ owner: null })
    expect(await read(undefined, id)).toMatchObject({ source: 'http://there/a' })
    expect((await save(undefined, id, { ...anonymous, _rev: rev })).status).toBe(403)
  })

  it('cannot be bypassed with replicated revisions', async () => {
    const id = newId()
    await save('mia', id, JOB)
    const docs = [{ ...JOB, _id: id, _rev: '2-abc', owner: 'eve', user_ctx: { name: 'eve', roles: [] } }]
    const reply = await as('eve', 'POST', '/_replicator/_bulk_docs', { new_edits: false, docs })
    expect(reply.json).toMatchObject([{ id, error: 'forbidden' }])
    expect(await read('root', id)).toMatchObject({ owner: 'mia' })
  })
})

describe('credentials of a replication document', () => {
  const secret = {
    source: 'https://mia:se/cret@there:6984/a?x=1',
    target: {
      url: 'http://mia:secret@there/b',
      auth: { basic: { password: 'secret' } },
      oauth: { token: 'secret' },
      headers: {
        Authorization: 'Basic secret',
        Cookie: 'AuthSession=secret',
        'X-Api-Key': 'secret',
        'X-Other': 'shown',
      },
    },
    proxy: 'http://mia:secret@proxy:3128',
    user_ctx: MIAS,
  }

  it.each(['root', 'dora', 'mia'])('are seen by %s', async (name) => {
    const id = newId()
    await save('mia', id, secret)
    expect(await read(name, id)).toMatchObject(secret)
  })

  it.each(['eve', undefined])('are not seen by %s', async (name) => {
    const id = newId()
    const { rev } = await save('mia', id, secret)
    const document = await read(name, id)
    expect(document).toMatchObject({
      source: 'https://there:6984/a?x=1',
      target: { url: 'http://there/b', headers: { 'X-Other': 'shown' } },
      proxy: 'http://proxy:3128',
      owner: 'mia',
    })
    for (const path of [`${id}?rev=${rev}`, `${id}?open_revs=all`, `${id}?revs=true`]) {
      expect((await as(name, 'GET', `/_replicator/${path}`)).text).not.toMatch(/cret/)
    }
    for (const query of ['', '&style=all_docs', `&filter=_doc_ids&doc_ids=["${id}"]`]) {
      const changes = await as(name, 'GET', `/_replicator/_changes?include_docs=true${query}`)
      expect([changes.status, changes.text.includes('there:6984')]).toEqual([200, true])
      expect(changes.text).not.toMatch(/cret/)
    }
    const bulk = await as(name, 'POST', '/_replicator/_bulk_get', { docs: [{ id }] })
    expect(bulk.text).toContain('there')
    expect(bulk.text).not.toMatch(/cret/)
  })
})

describe('passwords in the URL of a replication', () => {
  it.each([
    ['http://mia:se@cret@there/a', 'http://there/a', 'http://mia:*****@there/a'],
    ['http://mia@home:secret@there/a', 'http://there/a', 'http://mia@home:*****@there/a'],
    ['http://mia:@:cret@there/a', 'http://there/a', 'http://mia:*****@there/a'],
    ['http:/mia:secret@there/a', 'http:/there/a', 'http:/mia:*****@there/a'],
    [' http://mia:secret@there/a', ' http://there/a', ' http://mia:*****@there/a'],
    ['http://there:5984/a', 'http://there:5984/a', 'http://there:5984/a'],
  ])('are hidden in every form: %s', async (source, forOthers, forAdmins) => {
    const id = newId()
    await save('mia', id, { source, target: 'b', user_ctx: MIAS })
    expect(await read('eve', id)).toMatchObject({ source: forOthers })
    const scheduled = await as('root', 'GET', `/_scheduler/docs/_replicator/${id}`)
    expect(scheduled.json).toMatchObject({ source: forAdmins })
  })

  it('cannot be guessed with selectors', async () => {
    const id = newId()
    await save('mia', id, { source: 'http://mia:secret@there/guess', target: 'b', user_ctx: MIAS })
    const found = async (pattern: string) => {
      const body = { selector: { source: { $regex: pattern } } }
      const reply = await as('eve', 'POST', '/_replicator/_changes?filter=_selector', body)
      expect(reply.status, reply.text).toBe(200)
      return reply.text.includes(id)
    }
    expect(await found('there/guess')).toBe(true)
    expect(await found('mia:s')).toBe(false)
  })
})

describe('a replication document that is deleted', () => {
  it('is deleted by an administrator or by its owner', async () => {
    const reason = 'Replication documents can only be deleted by admins or by the users who created them.'
    for (const name of ['mia', 'root', 'dora']) {
      const id = newId()
      const { rev } = await save('mia', id, JOB)
      expectRefusal(await as('eve', 'DELETE', `/_replicator/${id}?rev=${rev}`), 403, 'forbidden', reason)
      expect((await as(name, 'DELETE', `/_replicator/${id}?rev=${rev}`)).status).toBe(200)
    }
  })
})

/** What a function says of a write; undefined where it has nothing against it. */
function verdictOf(document: object, name: string | undefined, before: object | null): string | undefined {
  const validate: (...parameters: unknown[]) => void = new Function(`return (${REPLICATOR_VALIDATION})`)()
  try {
    validate(document, before, { db: '_replicator', name: name ?? null, roles: name ? ROLES[name] : [] }, {})
    return undefined
  } catch (error) {
    return (error as { forbidden: string }).forbidden
  }
}

describe('a replication document', () => {
  const missing = (name: string) => `The \`${name}' property must exist and be either a string or an object.`
  const noUrl = "The url property must exist in the `source' field and must be a non-empty string."

  it.each<[object, string, string | undefined]>([
    [{}, 'mia', undefined],
    [{ source: { url: 'x', auth: {}, headers: {} } }, 'mia', undefined],
    [{ source: undefined }, 'mia', missing('source')],
    [{ source: null }, 'mia', missing('source')],
    [{ target: 1 }, 'root', missing('target')],
    [{ source: {} }, 'mia', noUrl],
    [{ source: { url: '' } }, 'mia', noUrl],
    [{ source: { url: 'x', auth: null } }, 'mia', "`source.auth' must be a non-null object."],
    [{ target: { url: 'x', headers: 1 } }, 'mia', "`target.headers' must be a non-null object."],
    [{ create_target: 1 }, 'mia', "The `create_target' field must be a boolean."],
    [{ continuous: 'true' }, 'root', "The `continuous' field must be a boolean."],
    [{ doc_ids: 'x' }, 'mia', "The `doc_ids' field must be an array of strings."],
    [{ doc_ids: ['x'] }, 'mia', undefined],
    [{ filter: '' }, 'mia', "The `filter' field must be a non-empty string."],
    [{ filter: 'a/b', query_params: {} }, 'mia', undefined],
    [{ query_params: 1 }, 'mia', "The `query_params' field must be an object."],
    [{ user_ctx: null }, 'root', "The `user_ctx' property must be a non-null object."],
    [{ user_ctx: { name: 1 } }, 'root', "The `user_ctx.name' property must be a non-empty string or null."],
    [{ user_ctx: { name: '', roles: [] } }, 'root', "The `user_ctx.name' property must be a non-empty string or null."],
    [{ user_ctx: { name: 'mia', roles: 1 } }, 'mia', "The `user_ctx.roles' property must be an array of strings."],
    [{ user_ctx: { name: 'eve', roles: [] } }, 'mia', "The given `user_ctx.name' is not valid"],
    [{ user_ctx: { name: null, roles: [] } }, 'mia', "The given `user_ctx.name' is not valid"],
    [{ user_ctx: { name: 'mia', roles: ['sync'] } }, 'mia', undefined],
    [{ user_ctx: { name: 'mia', roles: ['_admin'] } }, 'mia', "Invalid role (`_admin') in the `user_ctx'"],
    [{ user_ctx: { name: 'mia', roles: [''] } }, 'mia', 'Roles must be non-empty strings.'],
    [{ user_ctx: undefined }, 'mia', "The `user_ctx' property is missing (it is optional for admins only)."],
    [{ user_ctx: undefined }, 'root', undefined],
    [{ user_ctx: { name: 'eve', roles: ['_admin'] } }, 'root', undefined],
    // Who administers the database alone must not get more rights by it than that.
    [{ user_ctx: { name: 'dora', roles: ['_admin'] } }, 'dora', "Invalid role (`_admin') in the `user_ctx'"],
  ])('with %j, written by %s', async (members, name, reason) => {
    const document = { ...JOB, ...members }
    const reply = await save(name, newId(), document)
    if (reason === undefined) expect(reply.status, reply.text).toBe(201)
    else expectRefusal(reply, 403, 'forbidden', reason)
    expect(verdictOf(document, name, null)).toBe(reason)
  })

  it('cannot be changed while the replication runs', async () => {
    const id = newId()
    const before = { ...JOB, _replication_state: 'triggered' }
    const { rev } = await save('mia', id, before)
    const reason = 'Only the replicator can edit replication documents that are in the triggered state.'
    const document = { ...JOB, _rev: rev }
    expectRefusal(await save('mia', id, document), 403, 'forbidden', reason)
    expectRefusal(await save('root', id, document), 403, 'forbidden', reason)
    expect(verdictOf(document, 'mia', before)).toBe(reason)
    expect((await as('mia', 'DELETE', `/_replicator/${id}?rev=${rev}`)).status).toBe(200)
  })
})
