/** Revision ids are those of every other server of the family: the same edit gives the same revision everywhere. */
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'
import { EMPTY, FIRST_REVISIONS } from '../../support/first-revisions.ts'

const client = serverOfFile()

describe('the first revision', () => {
  it.each(FIRST_REVISIONS)('of %s is %s', async (body, rev) => {
    const db = await client().database()
    expect(await db.save('doc', body)).toBe(rev)
  })

  it('of a short text begins as published', async () => {
    const db = await client().database()
    expect(await db.save('doc', '{"val":"r0"}')).toMatch(/^1-47f3268e[0-9a-f]{24}$/)
  })

  it('depends on the decoded text, not on its escapes', async () => {
    const db = await client().database()
    expect(await db.save('blanks', ' { "a" :\n1 } ')).toBe('1-23202479633c2b380f79507a776743d5')
    expect(await db.save('escapes', '{"\\u0061":"\\u00e9"}')).toBe('1-a84b195a8ccf4e92812a4f2bb2272b90')
    expect(await db.save('members', '{"_id":"x","a":1,"_deleted":false}')).toBe('1-23202479633c2b380f79507a776743d5')
    expect(await db.save('exponent', '{"a":15e-1}')).toBe('1-c2d94f8474340cfb2476ac9ac18efe99')
    expect(await db.save('twice', '{"a":7,"a":1}')).toBe('1-23202479633c2b380f79507a776743d5')
  })

  it('depends on the order of members', async () => {
    const db = await client().database()
    const revs = new Set<string>()
    revs.add(await db.save('x', '{"a":1,"b":2}'))
    revs.add(await db.save('y', '{"b":2,"a":1}'))
    revs.add(await db.save('z', '{"a":1.0,"b":2}'))
    expect(revs.size).toBe(3)
    const numbers = new Set<string>()
    numbers.add(await db.save('p', '{"2":1,"1":2}'))
    numbers.add(await db.save('q', '{"1":2,"2":1}'))
    expect(numbers.size).toBe(2)
  })

  it('does not depend on the id of the document, nor on the endpoint', async () => {
    const db = await client().database()
    const body = { a: 1 }
    const rev = '1-23202479633c2b380f79507a776743d5'
    expect(await db.save('one', body)).toBe(rev)
    expect((await db.post('', { _id: 'two', ...body })).rev).toBe(rev)
    expect((await db.post('_bulk_docs', { docs: [{ _id: 'three', ...body }] })).json).toEqual([
      { ok: true, id: 'three', rev },
    ])
    expect((await db.copy('one', 'four')).rev).toBe(rev)
    expect(await db.save('_design/five', body)).toBe(rev)
  })
})

describe('the next revision', () => {
  it('of an empty body on an empty one', async () => {
    const db = await client().database()
    expect(await db.save('doc', {})).toBe(EMPTY)
    expect(await db.save('doc', { _rev: EMPTY })).toBe('2-7051cbe5c8faecd085a3fa619e6e6337')
  })

  it.each([
    ['{}', '2-eec205a9d413992850a6e32678485900'],
    ['{"a":1}', '2-b4e3122af5f2ab3ae9bbd74527a6aa04'],
    [
      '{"servings":4,"subtitle":"Delicious with fresh bread","title":"Fish Stew"}',
      '2-056f5f44046ecafc08a2bc2b9c229e20',
    ],
  ])('of a deletion of %s', async (body, tombstone) => {
    const db = await client().database()
    expect((await db.saveAndRemove('doc', body)).tombstone).toBe(tombstone)
  })

  it('of a deletion does not depend on the kind of request', async () => {
    const db = await client().database()
    for (const id of ['a', 'b']) await db.save(id, {})
    expect((await db.put('a', { _rev: EMPTY, _deleted: true })).rev).toBe('2-eec205a9d413992850a6e32678485900')
    const bulk = await db.post('_bulk_docs', { docs: [{ _id: 'b', _rev: EMPTY, _deleted: true }] })
    expect(bulk.json).toEqual([{ ok: true, id: 'b', rev: '2-eec205a9d413992850a6e32678485900' }])
  })

  it('of a tombstone with a body', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const reply = await db.put('doc', { _rev: EMPTY, _deleted: true, why: 'x' })
    expect(reply.rev).toBe('2-8d4647bfdeafccd591eb6d350279821d')
  })

  it('of re-creation is that of a child of the tombstone', async () => {
    const db = await client().database()
    await db.saveAndRemove('empty', {})
    expect(await db.save('empty', {})).toBe('3-5570e8bbb34412db757c2df4bfa1099b')
    await db.saveAndRemove('doc', { a: 1 })
    expect(await db.save('doc', { b: 2 })).toBe('3-12d6e7a4d180f9ad2292b324630bc217')
  })

  it('of a chain of edits', async () => {
    const db = await client().database()
    const first = await db.save('doc', { val: 'r0' })
    const second = await db.save('doc', { _rev: first, val: 'r1' })
    const third = await db.save('doc', { _rev: second, val: 'r2' })
    expect([first, second, third].map((rev) => rev.slice(0, 10))).toEqual(['1-47f3268e', '2-1d8171ab', '3-3fb0a342'])
  })

  it('is the same on two databases that get the same edits', async () => {
    const left = await client().database()
    const right = await client().database()
    for (const db of [left, right]) {
      const rev = await db.save('doc', { a: [1.5, 'x', { y: null }] })
      await db.save('doc', { _rev: rev, b: 2 })
    }
    const { _rev } = (await left.get('doc')).as<{ _rev: string }>()
    await right.replicate((await left.get('doc?revs=true')).json)
    expect((await right.get('doc?conflicts=true')).json).toEqual({ _id: 'doc', _rev, b: 2 })
  })
})
