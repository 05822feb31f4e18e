import { describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import type { UserContext } from '../../src/database/user-context.ts'
import { put } from '../database/test-database.ts'
import { ADMIN, NOBODY, startAuth, user } from './test-auth.ts'

async function withDatabase(security: unknown) {
  const { auth, databases } = await startAuth({ admins: { root: 'x' } })
  await databases.create('db')
  await (await databases.get('db')).setSecurity(Buffer.from(JSON.stringify(security)))
  return (asked: UserContext): Promise<Database> => auth.access.open('db', asked)
}

const SECURITY = { admins: { names: ['dora'] }, members: { names: ['mia'] } }

describe('a database that is opened for a user', () => {
  it('is not there before anybody is asked who they are', async () => {
    const { auth } = await startAuth({ admins: { root: 'x' } })
    await expect(auth.access.open('none', NOBODY)).rejects.toThrow('not_found: no_db_file')
    await expect(auth.access.open('None', NOBODY)).rejects.toThrow('illegal_database_name')
  })

  it('turns strangers away', async () => {
    const open = await withDatabase(SECURITY)
    for (const asked of [NOBODY, user('eve')]) {
      await expect(open(asked)).rejects.toThrow('unauthorized: You are not authorized to access this db.')
    }
  })

  it.each([
    ['administrators', ADMIN, ['written', 'written', 'written']],
    ['its own administrators', user('dora'), ['written', 'written', 'written']],
    ['members', user('mia'), ['written', 'unauthorized: You are not a db or server admin.', 'written']],
  ])('takes documents of %s, each by itself', async (_, asked, expected) => {
    const open = await withDatabase(SECURITY)
    const database = await open(asked)
    const outcomes = await database.write([put('a', {}), put('_design/d', {}), put('b', {})])
    const told = outcomes.map((each) =>
      each.outcome === 'written' ? 'written' : `${each.error.kind}: ${each.error.reason}`,
    )
    expect(told).toEqual(expected)
  })

  it('takes no design document later either', async () => {
    const open = await withDatabase({})
    const database = await open(NOBODY)
    database.writeLater(put('_design/d', {}))
    database.writeLater(put('a', {}))
    await database.flush()
    using view = database.view()
    expect([await view.record('_design/d'), (await view.record('a'))?.deleted]).toEqual([undefined, false])
  })

  it('uses a new security object with the next request', async () => {
    const open = await withDatabase({})
    const database = await open(NOBODY)
    await database.setSecurity(Buffer.from(JSON.stringify(SECURITY)))
    await expect(open(NOBODY)).rejects.toThrow('unauthorized')
  })

  it('is the same database for all: writes of one are seen by the other', async () => {
    const open = await withDatabase({})
    const [one, other] = [await open(NOBODY), await open(ADMIN)]
    const heard: number[] = []
    const stop = other.onUpdate((sequence) => heard.push(sequence))
    await one.write([put('a', {})])
    stop()
    await one.write([put('b', {})])
    expect(heard).toHaveLength(1)
    expect((await other.information()).documentCount).toBe(2)
  })
})
