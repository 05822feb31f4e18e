/** Of two things that are wrong with a request, which one is told. */
import { beforeAll, describe, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile } from '../support/client.ts'

const client = serverOfFile({ settings: { admins: { root: 'top' } } })

const ADMIN = { Authorization: `Basic ${btoa('root:top')}` }
const TEXT = { 'Content-Type': 'text/plain' }
const JSON_TYPE = { 'Content-Type': 'application/json' }

beforeAll(async () => {
  await client().request('PUT', '/db', { headers: ADMIN })
})

function expectWrongType(reply: Reply): void {
  expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
}

const SERVER_ADMIN = 'You are not a server admin.'
const DATABASE_ADMIN = 'You are not a db or server admin.'

describe('a request of the wrong type by somebody who may not send it', () => {
  it.each([
    ['/_restart', SERVER_ADMIN],
    ['/db/_temp_view', DATABASE_ADMIN],
  ])('is told of its type by %s', async (path, reason) => {
    expectWrongType(await client().request('POST', path, { headers: TEXT }))
    expectWrongType(await client().request('POST', path))
    expectRefusal(await client().request('POST', path, { headers: JSON_TYPE }), 401, 'unauthorized', reason)
  })

  it.each([
    ['/db/_compact', DATABASE_ADMIN],
    ['/db/_compact/x', DATABASE_ADMIN],
    ['/db/_design/x/_compact', DATABASE_ADMIN],
    ['/db/_view_cleanup', DATABASE_ADMIN],
    ['/db/_purge', DATABASE_ADMIN],
    ['/_plugins', SERVER_ADMIN],
  ])('is told of its rights by %s', async (path, reason) => {
    expectRefusal(await client().request('POST', path, { headers: TEXT }), 401, 'unauthorized', reason)
    expectWrongType(await client().request('POST', path, { headers: { ...ADMIN, ...TEXT } }))
  })
})

describe('a request of the wrong type to a database that is not there', () => {
  it('is told that there is none', async () => {
    expectRefusal(await client().request('POST', '/none/_temp_view'), 404, 'not_found', 'no_db_file')
  })
})

describe('a plugin', () => {
  it('is not installed', async () => {
    const reply = await client().request('POST', '/_plugins', { headers: { ...ADMIN, ...JSON_TYPE } })
    expectRefusal(reply, 501, 'not_implemented', 'Plugins are not supported.')
    expectRefusal(await client().request('GET', '/_plugins'), 405, 'method_not_allowed', 'Only POST allowed')
  })
})
