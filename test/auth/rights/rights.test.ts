import { describe, expect, it } from 'vitest'
import { authorize, parseSecurity, type Who } from '../../../src/auth/rights/rights.ts'
import { ADMIN, NOBODY, user } from '../test-auth.ts'

function security(value: unknown) {
  return parseSecurity(Buffer.from(JSON.stringify(value)))
}

const CLOSED = security({
  admins: { names: ['dora'], roles: ['chief'] },
  members: { names: ['mia'], roles: ['staff'] },
})
const OPEN = parseSecurity(undefined)

const SERVER = 'unauthorized: You are not a server admin.'
const DATABASE = 'unauthorized: You are not a db or server admin.'
const MEMBER = 'unauthorized: You are not authorized to access this db.'

function verdict(who: Who, asked: Parameters<typeof authorize>[1], rules = CLOSED): string {
  try {
    authorize(who, asked, rules)
    return '+'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

describe('rights in a database with members', () => {
  it.each([
    ['a server admin', ADMIN, ['+', '+', '+', '+']],
    ['a nameless admin', { name: null, roles: ['_admin'] }, ['+', '+', '+', '+']],
    ['a database admin by name', user('dora'), ['+', '+', '+', SERVER]],
    ['a database admin by role', user('x', 'chief'), ['+', '+', '+', SERVER]],
    ['a member by name', user('mia'), ['+', '+', DATABASE, SERVER]],
    ['a member by role', user('x', 'staff'), ['+', '+', DATABASE, SERVER]],
    ['another user', user('eve', 'other'), ['+', MEMBER, MEMBER, SERVER]],
    ['nobody', NOBODY, ['+', MEMBER, MEMBER, SERVER]],
  ])('of %s', (_, asked, expected) => {
    const all = ['anyone', 'member', 'database admin', 'server admin'] as const
    expect(all.map((who) => verdict(who, asked))).toEqual(expected)
  })
})

describe('a database without members', () => {
  it('is for everybody, and changed by server admins alone', () => {
    for (const asked of [user('eve'), NOBODY]) {
      expect(verdict('member', asked, OPEN)).toBe('+')
      expect(verdict('database admin', asked, OPEN)).toBe(DATABASE)
    }
    expect(verdict('database admin', ADMIN, OPEN)).toBe('+')
  })

  it('is for everybody when only its admins are named', () => {
    const rules = security({ admins: { names: ['dora'] } })
    expect(verdict('member', NOBODY, rules)).toBe('+')
    expect(verdict('database admin', user('dora'), rules)).toBe('+')
  })

  it('lets in admins when only members of roles are named', () => {
    const rules = security({ admins: { names: ['dora'] }, members: { roles: ['staff'] } })
    expect(verdict('member', user('dora'), rules)).toBe('+')
    expect(verdict('member', NOBODY, rules)).toBe(MEMBER)
  })
})

describe('a security object', () => {
  it('may call members readers, unless it has members', () => {
    expect(verdict('member', user('eve'), security({ readers: { names: ['mia'] } }))).toBe(MEMBER)
    expect(verdict('member', user('mia'), security({ readers: { names: ['mia'] } }))).toBe('+')
    const both = security({ members: { names: ['mia'] }, readers: { names: ['eve'] } })
    expect(verdict('member', user('eve'), both)).toBe(MEMBER)
  })

  it('never names who has no name', () => {
    const rules = security({ admins: { names: ['null', ''] }, members: { names: ['null', ''] } })
    expect(verdict('member', NOBODY, rules)).toBe(MEMBER)
    expect(verdict('member', user('null'), rules)).toBe('+')
  })

  it.each([[null], [[]], [5], ['x'], [{ admins: null }], [{ admins: { names: 'dora' }, members: [] }]])(
    'gives nobody rights when it is %j',
    (value) => {
      expect(verdict('database admin', user('dora'), security(value))).toBe(DATABASE)
    },
  )
})
