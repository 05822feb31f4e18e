/** Which of two errors of a request is reported. */
import { beforeAll, describe, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile } from '../../support/client.ts'

const client = serverOfFile({ settings: { admins: { root: 'top' } } })

const ADMIN = { Authorization: `Basic ${btoa('root:top')}` }
const TEXT = { 'Content-Type': 'text/plain' }
const JSON_TYPE = { 'Content-Type': 'application/json' }

beforeAll(async () => {
  await client().request('PUT', '/db', { headers: ADMIN })
  await client().request('PUT', '/db/_design/there', { headers: ADMIN, body: '{}' })
})

function expectWrongType(reply: Reply): void {
  expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
}

const SERVER_ADMIN = 'You are not a server admin.'
const DATABASE_ADMIN = 'You are not a db or server admin.'

describe('a request with the wrong Content-Type from a user without the right to send it', () => {
  it.each([
    ['/_restart', SERVER_ADMIN],
    ['/db/_temp_view', DATABASE_ADMIN],
  ])('gets the error of its Content-Type from %s', async (path, reason) => {
    expectWrongType(await client().request('POST', path, { headers: TEXT }))
    expectWrongType(await client().request('POST', path))
    expectRefusal(await client().request('POST', path, { headers: JSON_TYPE }), 401, 'unauthorized', reason)
  })

  it.each([
    ['/db/_compact', DATABASE_ADMIN],
    ['/db/_compact/there', DATABASE_ADMIN],
    ['/db/_design/there/_compact', DATABASE_ADMIN],
    ['/db/_view_cleanup', DATABASE_ADMIN],
    ['/db/_purge', DATABASE_ADMIN],
    ['/_plugins', SERVER_ADMIN],
  ])('gets the error of its rights from %s', async (path, reason) => {
    expectRefusal(await client().request('POST', path, { headers: TEXT }), 401, 'unauthorized', reason)
    expectWrongType(await client().request('POST', path, { headers: { ...ADMIN, ...TEXT } }))
  })
})

describe('a request with the wrong Content-Type to a missing database', () => {
  it('gets 404', async () => {
    expectRefusal(await client().request('POST', '/none/_temp_view'), 404, 'not_found', 'no_db_file')
  })
})

describe('a request with the wrong Content-Type to a missing design document', () => {
  it.each(['/db/_compact/x', '/db/_design/x/_compact'])('gets 404 from %s', async (path) => {
    expectRefusal(await client().request('POST', path, { headers: TEXT }), 404, 'not_found', 'missing')
    expectRefusal(await client().request('POST', path, { headers: { ...ADMIN, ...TEXT } }), 404, 'not_found', 'missing')
  })
})

describe('an invalid request from a user without the right to send it', () => {
  it('gets the error about the revision when it deletes a database', async () => {
    const reason = 'You tried to DELETE a database with a ?rev= parameter. Did you mean to DELETE a document instead?'
    expectRefusal(await client().request('DELETE', '/db?rev=1-a'), 400, 'bad_request', reason)
    expectRefusal(await client().request('DELETE', '/none?rev=1-a'), 400, 'bad_request', reason)
    expectRefusal(await client().request('DELETE', '/db'), 401, 'unauthorized', SERVER_ADMIN)
    expectRefusal(await client().request('DELETE', '/none'), 401, 'unauthorized', SERVER_ADMIN)
    const missing = await client().request('DELETE', '/none', { headers: ADMIN })
    expectRefusal(missing, 404, 'not_found', 'missing')
  })

  it('gets the error of a body that is not an object first, then of missing rights, then of its members', async () => {
    const put = (body: string) => client().request('PUT', '/db/_security', { body })
    expectRefusal(await put('{'), 400, 'bad_request', 'invalid_json')
    expectRefusal(await put('[]'), 400, 'bad_request', '')
    expectRefusal(await put('{"members":{"names":5}}'), 401, 'unauthorized', DATABASE_ADMIN)
    expectRefusal(await put('{}'), 401, 'unauthorized', DATABASE_ADMIN)
    const wrong = await client().request('PUT', '/none/_security', { body: '[]' })
    expectRefusal(wrong, 404, 'not_found', 'no_db_file')
  })
})

describe('a plugin', () => {
  it('is not installed', async () => {
    const reply = await client().request('POST', '/_plugins', { headers: { ...ADMIN, ...JSON_TYPE } })
    expectRefusal(reply, 501, 'not_implemented', 'Plugins are not supported.')
    expectRefusal(await client().request('GET', '/_plugins'), 405, 'method_not_allowed', 'Only POST allowed')
  })
})
