import { expect, it } from 'vitest'
import { type Reply, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

/** What the reply says of itself; what differs from one moment to the next left out. */
function headOf({ status, headers }: Reply): unknown {
  const { date: _, 'x-service-request-id': __, ...others } = headers
  return { status, others }
}

it.each([
  '/',
  '/_all_dbs',
  '/_active_tasks',
  '/_session',
  '/_config',
  '/_nothing',
  '/none',
  '/none/document',
  '/%00',
  '/{db}',
  '/{db}/',
  '/{db}/_all_docs',
  '/{db}/_all_docs?include_docs=true&attachments=true',
  '/{db}/_all_docs?keys=["a"]',
  '/{db}/_all_docs?limit=x',
  '/{db}/_security',
  '/{db}/_revs_limit',
  '/{db}/_nothing',
  '/{db}/none',
  '/{db}/_local/none',
  '/{db}/_local/a',
  '/{db}/_design/none',
  '/{db}/_design/a',
  '/{db}/a',
  '/{db}/a?rev=1-x',
  '/{db}/a?rev=x',
  '/{db}/a?revs=true&conflicts=true',
  '/{db}/a?open_revs=all',
  '/{db}/a?attachments=true',
  '/{db}/a/b',
  '/{db}/a/none',
])('HEAD of %s has the head of GET and no body', async (path) => {
  const database = await client().database()
  await database.save('a', { _attachments: { b: { content_type: 'image/png', data: 'YWJj' } } })
  await database.save('_local/a', {})
  await database.save('_design/a', {})
  const address = path.replace('{db}', database.name)
  const got = await client().request('GET', address)
  const head = await client().request('HEAD', address)
  expect(head.body.length).toBe(0)
  expect(headOf(head)).toEqual(headOf(got))
})
