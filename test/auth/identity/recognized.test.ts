import { describe, expect, it } from 'vitest'
import type { AuthRequest } from '../../../src/auth/identity/auth-request.ts'
import { ADMIN, basic, newUser, request, startAuth, type TestAuth } from '../test-auth.ts'

const WRONG = 'Name or password is incorrect.'

interface Connected extends TestAuth {
  /** Who a request of the one connection comes from. */
  name(headers: AuthRequest['headers']): Promise<string | null>
  readonly cookie: { readonly cookie: string }
}

/** A connection on which bob has been known twice already: by his password and by his cookie. */
async function connect(): Promise<Connected> {
  const test = await startAuth({ admins: { root: 'top' } })
  const users = await test.users(ADMIN)
  expect(await users.write([newUser('bob', 'secret')])).toMatchObject([{ outcome: 'written' }])
  const connection = {}
  const name = async (headers: AuthRequest['headers']) =>
    (await test.auth.handlers.authenticate(request(headers, { connection }))).user.name
  const login = await test.auth.login({ name: 'bob', password: 'secret' }, request())
  const cookie = { cookie: login?.cookie.split(';')[0] ?? '' }
  for (let i = 0; i < 2; i++) {
    expect(await name(basic('bob', 'secret'))).toBe('bob')
    expect(await name(cookie)).toBe('bob')
  }
  return { ...test, name, cookie }
}

describe('a connection whose client is known', () => {
  it('finds each request in memory', async () => {
    const { name, lookups, cookie } = await connect()
    lookups.length = 0
    await name(basic('bob', 'secret'))
    await name(cookie)
    expect(lookups).toEqual([true, true])
  })

  it('is anonymous without credentials', async () => {
    const { name } = await connect()
    expect(await name({})).toBeNull()
  })

  it('is refused with another password or name, and known again with the right one', async () => {
    const { name } = await connect()
    await expect(name(basic('bob', 'secrets'))).rejects.toThrow(WRONG)
    await expect(name(basic('bobb', 'secret'))).rejects.toThrow(WRONG)
    expect(await name(basic('bob', 'secret'))).toBe('bob')
  })

  it('is invalid when its user has another password', async () => {
    const { name, users, cookie } = await connect()
    const database = await users(ADMIN)
    using view = database.view()
    const { winner } = (await view.record('org.service.user:bob'))!
    await database.write([{ ...newUser('bob', 'other'), parent: winner }])
    await expect(name(basic('bob', 'secret'))).rejects.toThrow(WRONG)
    expect(await name(cookie)).toBeNull()
    expect(await name(basic('bob', 'other'))).toBe('bob')
  })

  it('is invalid when its cookie has expired, or the secret has changed', async () => {
    const { name, clock, settings, cookie } = await connect()
    clock.seconds += 599
    expect(await name(cookie)).toBe('bob')
    clock.seconds += 1
    expect(await name(cookie)).toBeNull()
    clock.seconds -= 600
    expect(await name(cookie)).toBe('bob')
    await settings.set('service_httpd_auth', 'secret', 'another')
    expect(await name(cookie)).toBeNull()
  })
})
