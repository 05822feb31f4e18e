/** `_changes?filter=_selector`: changes of the documents that match. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile } from '../../support/client.ts'
import type { ChangesReply } from '../../support/feed.ts'

const client = serverOfFile()

function results(reply: Reply): ChangesReply['results'] {
  expect(reply.status, reply.text).toBe(200)
  return reply.as<ChangesReply>().results
}

describe('filter=_selector', () => {
  it('lets the documents pass that match', async () => {
    const db = await client().database()
    await db.post('_bulk_docs', {
      docs: Array.from({ length: 20 }, (_, i) => ({ _id: `d${i}`, n: i, t: { x: i % 3 } })),
    })
    const reply = await db.post('_changes?filter=_selector', { selector: { n: { $gte: 10 }, t: { x: 0 } } })
    expect(results(reply).map(({ id }) => id)).toEqual(['d12', 'd15', 'd18'])
    expect(reply.as<ChangesReply>().last_seq).toBe(20)
    const byId = await db.post('_changes?filter=_selector&since=5', { selector: { _id: { $lt: 'd11' } } })
    expect(results(byId).map(({ id }) => id)).toEqual(['d10'])
  })

  it('matches tombstones and design documents too', async () => {
    const db = await client().database()
    await db.saveAndRemove('gone', {})
    await db.save('_design/d', { views: {} })
    await db.save('here', {})
    const deleted = await db.post('_changes?filter=_selector', { selector: { _deleted: true } })
    expect(results(deleted).map(({ id }) => id)).toEqual(['gone'])
    const all = await db.post('_changes?filter=_selector', { selector: {} })
    expect(results(all).map(({ id }) => id)).toEqual(['gone', '_design/d', 'here'])
  })

  it('shows the fields that are named', async () => {
    const db = await client().database()
    await db.save('a', { x: { y: 1, z: 2 }, n: 3 })
    const body = { selector: { n: 3 }, fields: ['x.y', '_id'] }
    const reply = await db.post('_changes?filter=_selector&include_docs=true', body)
    expect(results(reply)).toMatchObject([{ id: 'a', doc: { _id: 'a', x: { y: 1 } } }])
    expect(reply.text).toContain('"doc":{"x":{"y":1},"_id":"a"}')
  })

  it('refuses an invalid selector', async () => {
    const db = await client().database()
    const refused = async (body: unknown) => db.post('_changes?filter=_selector', body)
    expectRefusal(
      await db.get('_changes?filter=_selector'),
      400,
      'bad_request',
      'Selector must be specified in POST payload',
    )
    expectRefusal(await refused({ selector: [] }), 400, 'bad_request', 'Selector error: expected a JSON object')
    expectRefusal(await refused({}), 400, 'bad_request', 'Selector error: expected a JSON object')
    expectRefusal(await refused({ selector: { a: { $x: 1 } } }), 400, 'invalid_operator', 'Invalid operator: $x')
    expectRefusal(
      await refused({ selector: {}, fields: 1 }),
      400,
      'invalid_fields',
      'Fields must be an array of strings, not: 1',
    )
  })
})
