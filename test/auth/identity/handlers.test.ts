import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Authentication } from '../../../src/auth/identity/handlers.ts'
import { handlerNames } from '../../../src/auth/identity/handlers.ts'
import { expectedSignature, signedRequest } from '../../../src/auth/identity/oauth.ts'
import { hashAdminPassword } from '../../../src/auth/passwords/passwords.ts'
import { openDocument } from '../../../src/database/reading/open-document.ts'
import { put, written } from '../../database/test-database.ts'
import { ADMIN, basic, newUser, request, type Settings, startAuth, type TestAuth, user } from '../test-auth.ts'

const WRONG = 'unauthorized: Name or password is incorrect.'

async function withAdmin(auth: Record<string, string> = {}, others: Settings = {}): Promise<TestAuth> {
  const hash = await hashAdminPassword('top', { scheme: 'simple', iterations: 1 })
  return startAuth({ admins: { root: hash }, service_httpd_auth: auth, ...others })
}

async function withBob(auth: Record<string, string> = {}, others: Settings = {}): Promise<TestAuth> {
  const test = await withAdmin(auth, others)
  const users = await test.users(ADMIN)
  await written(users.write([newUser('bob', 'pass', { roles: ['staff'] })]))
  return test
}

/** Who it is in short: name, roles, handler. */
async function who(test: TestAuth, headers = {}, given = {}): Promise<unknown[]> {
  const { user: known, handler } = await test.auth.handlers.authenticate(request(headers, given))
  return [known.name, known.roles, handler]
}

async function cookieOf(test: TestAuth, name: string, password: string): Promise<{ cookie: string }> {
  const entered = await test.auth.login({ name, password }, { isSecure: false })
  return { cookie: entered?.cookie.split(';', 1)[0] ?? '' }
}

describe('the list of handlers', () => {
  it.each([
    [
      '{service_httpd_oauth, oauth_authentication_handler},\n {couch_httpd_auth, cookie_authentication_handler}',
      ['oauth', 'cookie'],
    ],
    ['cookie, default', ['cookie', 'default']],
    ['{service_httpd_auth,proxy_authentification_handler}', ['proxy']],
    ['{a, null_authentication_handler}, {b, special_test_authentication_handler}', ['null', 'special']],
    ['{x, unknown_handler}, default_authentication_handler', ['default']],
    ['constructor, __proto__, toString', []],
    ['', []],
  ])('%s', (list, names) => {
    expect(handlerNames(list)).toEqual(names)
  })
})

describe('without an administrator', () => {
  it('everybody is one', async () => {
    const test = await startAuth()
    expect(await who(test)).toEqual([null, ['_admin'], 'default'])
  })

  it('who logs in is just that user', async () => {
    const test = await startAuth()
    await written((await test.users(ADMIN)).write([newUser('bob', 'pass', { roles: ['staff'] })]))
    expect(await who(test, basic('bob', 'pass'))).toEqual(['bob', ['staff'], 'default'])
    await expect(who(test, basic('bob', 'no'))).rejects.toThrow(WRONG)
  })

  it('nobody is one where a user is required, or without the handler', async () => {
    const strict = await startAuth({ service_httpd_auth: { require_valid_user: 'true' } })
    await expect(who(strict)).rejects.toThrow('unauthorized: Authentication required.')
    const other = await startAuth({ httpd: { authentication_handlers: 'cookie' } })
    expect(await who(other)).toEqual([null, [], undefined])
  })

  it('ends when one is made, and comes back when the last one goes', async () => {
    const test = await startAuth()
    await test.settings.set('admins', 'root', await hashAdminPassword('top', { scheme: 'simple', iterations: 1 }))
    expect(await who(test)).toEqual([null, [], undefined])
    await test.settings.delete('admins', 'root')
    expect(await who(test)).toEqual([null, ['_admin'], 'default'])
  })
})

describe('Basic', () => {
  it('knows administrators and users', async () => {
    const test = await withBob()
    expect(await who(test, basic('root', 'top'))).toEqual(['root', ['_admin'], 'default'])
    expect(await who(test, basic('bob', 'pass'))).toEqual(['bob', ['staff'], 'default'])
    expect(await who(test)).toEqual([null, [], undefined])
    expect(await who(test, basic('_', '_'))).toEqual([null, [], undefined])
  })

  it.each([
    ['bob', 'wrong'],
    ['bob', ''],
    ['nobody', 'pass'],
    ['', ''],
    ['root', 'pass'],
    ['\ud800', 'x'],
  ])('refuses %s with %s', async (name, password) => {
    await expect(who(await withBob(), basic(name, password))).rejects.toThrow(WRONG)
  })

  it('does not take an administrator whose password is not hashed yet', async () => {
    const test = await startAuth({ admins: { root: 'top' } })
    await expect(who(test, basic('root', 'top'))).rejects.toThrow(WRONG)
    expect(await who(test)).toEqual([null, [], undefined])
  })

  it('takes the hash for no password', async () => {
    const hash = await hashAdminPassword('top', { scheme: 'simple', iterations: 1 })
    await expect(who(await startAuth({ admins: { root: hash } }), basic('root', hash))).rejects.toThrow(WRONG)
  })

  it('adds the roles of a document to an administrator, whatever its password', async () => {
    const test = await withAdmin()
    await written((await test.users(ADMIN)).write([newUser('root', 'other', { roles: ['staff'] })]))
    expect(await who(test, basic('root', 'top'))).toEqual(['root', ['_admin', 'staff'], 'default'])
    await expect(who(test, basic('root', 'other'))).rejects.toThrow(WRONG)
  })

  it('finds a user by the id that the family uses, and the neutral one first', async () => {
    const test = await withAdmin()
    const users = await test.databases.get('_users')
    const salt = 'salt'
    const hashed = (password: string) => ({
      ...{ name: 'bob', type: 'user', roles: [], salt },
      password_sha: createHash('sha1')
        .update(password + salt)
        .digest('hex'),
    })
    await written(users.write([put('org.couchdb.user:bob', hashed('usual'))]))
    expect(await who(test, basic('bob', 'usual'))).toEqual(['bob', [], 'default'])
    await written(users.write([put('org.service.user:bob', hashed('neutral'))]))
    await expect(who(test, basic('bob', 'usual'))).rejects.toThrow(WRONG)
    expect(await who(test, basic('bob', 'neutral'))).toEqual(['bob', [], 'default'])
  })

  it('gives no role of the server that a document claims', async () => {
    const test = await withAdmin()
    const users = await test.databases.get('_users')
    const password_sha = createHash('sha1').update('pss').digest('hex')
    const members = { name: 'eve', type: 'user', roles: ['_admin', 'x', 5], password_sha, salt: 's' }
    await written(users.write([put('org.service.user:eve', members)]))
    expect(await who(test, basic('eve', 'ps'))).toEqual(['eve', ['x'], 'default'])
  })

  it('refuses a user whose document has conflicts, but not an administrator', async () => {
    const test = await withBob()
    const users = await test.databases.get('_users')
    const members = { name: 'bob', type: 'user', roles: [] }
    await written(users.write([put('org.service.user:bob', members, { branching: true })]))
    await expect(who(test, basic('bob', 'pass'))).rejects.toThrow(
      'unauthorized: User document conflicts must be resolved before the document is used for authentication purposes.',
    )
    await written(users.write([put('org.service.user:root', { a: 1 }, { branching: true })]))
    await written(users.write([put('org.service.user:root', { a: 2 }, { branching: true })]))
    expect(await who(test, basic('root', 'top'))).toEqual(['root', ['_admin'], 'default'])
  })

  it('refuses hashes of too few and too many iterations', async () => {
    const test = await withBob()
    await test.settings.set('service_httpd_auth', 'min_iterations', '11')
    await expect(who(test, basic('bob', 'pass'))).rejects.toThrow(
      'forbidden: Iteration count is too low for this server',
    )
    await test.settings.set('service_httpd_auth', 'min_iterations', '1')
    await test.settings.set('service_httpd_auth', 'max_iterations', '9')
    await expect(who(test, basic('bob', 'pass'))).rejects.toThrow(
      'forbidden: Iteration count is too high for this server',
    )
  })

  it('sees a new password, a deletion and a new database at the next request', async () => {
    const test = await withBob()
    expect(await who(test, basic('bob', 'pass'))).toEqual(['bob', ['staff'], 'default'])
    const users = await test.users(ADMIN)
    const { id, revision } = await read(test, 'bob')
    const [next = ''] = await written(
      users.write([put(id, { name: 'bob', type: 'user', roles: [], password: 'new' }, { parent: revision })]),
    )
    await expect(who(test, basic('bob', 'pass'))).rejects.toThrow(WRONG)
    expect(await who(test, basic('bob', 'new'))).toEqual(['bob', [], 'default'])
    await written(users.write([put(id, {}, { parent: next, deleted: true })]))
    await expect(who(test, basic('bob', 'new'))).rejects.toThrow(WRONG)
    await written(users.write([newUser('bob', 'again')]))
    expect(await who(test, basic('bob', 'again'))).toEqual(['bob', [], 'default'])
    await test.databases.delete('_users')
    await expect(who(test, basic('bob', 'again'))).rejects.toThrow(WRONG)
  })

  it('upgrades the hash of an old password at the first login, once', async () => {
    const test = await withAdmin()
    const users = await test.databases.get('_users')
    const password_sha = createHash('sha1').update('passsalt').digest('hex')
    const members = { name: 'old', type: 'user', roles: ['r'], big: 12345678901234567890n.toString(), password_sha }
    await written(users.write([put('org.couchdb.user:old', { ...members, salt: 'salt' })]))
    const logins = await Promise.all([1, 2, 3].map(() => who(test, basic('old', 'pass'))))
    expect(logins).toEqual([1, 2, 3].map(() => ['old', ['r'], 'default']))
    const { revision, members: after } = await read(test, 'old', 'org.couchdb.user:')
    expect(revision).toMatch(/^2-/)
    expect(after).toEqual({
      ...{ name: 'old', type: 'user', roles: ['r'], big: '12345678901234567890' },
      password_scheme: 'pbkdf2',
      pbkdf2_prf: 'sha256',
      iterations: 10,
      derived_key: expect.any(String),
      salt: expect.not.stringMatching(/^salt$/),
    })
    expect(await who(test, basic('old', 'pass'))).toEqual(['old', ['r'], 'default'])
    await expect(who(test, basic('old', 'other'))).rejects.toThrow(WRONG)
  })

  it('leaves old passwords as they are where that is the scheme', async () => {
    const test = await withBob({ password_scheme: 'simple' })
    const { revision, members } = await read(test, 'bob')
    expect(members).toMatchObject({ password_scheme: 'simple', password_sha: expect.any(String) })
    expect(await who(test, basic('bob', 'pass'))).toEqual(['bob', ['staff'], 'default'])
    expect((await read(test, 'bob')).revision).toBe(revision)
  })
})

async function read(test: TestAuth, name: string, prefix = 'org.service.user:') {
  using view = (await test.databases.get('_users')).view()
  const { parts, revision } = await openDocument(view, prefix + name)
  return { id: parts.id, revision, members: JSON.parse(parts.body.toString()) }
}

describe('looking up users', () => {
  it('counts one a request, and whether it was in memory', async () => {
    const test = await withBob()
    await who(test, basic('bob', 'pass'))
    await who(test, basic('bob', 'pass'))
    await who(test, basic('root', 'top'))
    await who(test, basic('root', 'top'))
    await who(test)
    expect(test.lookups).toEqual([false, true, false, true])
  })

  it('reads a changed user again', async () => {
    const test = await withBob()
    await who(test, basic('bob', 'pass'))
    await written((await test.users(ADMIN)).write([newUser('eve', 'pass')]))
    await who(test, basic('bob', 'pass'))
    expect(test.lookups).toEqual([false, true])
  })

  it('remembers nothing where the cache has no room', async () => {
    const test = await withBob({ auth_cache_size: '0' })
    await who(test, basic('bob', 'pass'))
    await who(test, basic('bob', 'pass'))
    expect(test.lookups).toEqual([false, false])
  })
})

describe('the cookie', () => {
  it('authenticates the user, with its current roles', async () => {
    const test = await withBob()
    const cookie = await cookieOf(test, 'bob', 'pass')
    expect(await who(test, cookie)).toEqual(['bob', ['staff'], 'cookie'])
    expect(await who(test, await cookieOf(test, 'root', 'top'))).toEqual(['root', ['_admin'], 'cookie'])
    const { id, revision, members } = await read(test, 'bob')
    await written((await test.users(ADMIN)).write([put(id, { ...members, roles: ['new'] }, { parent: revision })]))
    expect(await who(test, cookie)).toEqual(['bob', ['new'], 'cookie'])
  })

  it('is made with a secret that the first login makes, one for all', async () => {
    const test = await withBob()
    expect(test.settings.get('service_httpd_auth', 'secret')).toBeUndefined()
    const cookies = await Promise.all([1, 2, 3, 4].map(() => cookieOf(test, 'bob', 'pass')))
    expect(test.settings.get('service_httpd_auth', 'secret')).toMatch(/^[0-9a-f]{32}$/)
    for (const cookie of cookies) expect(await who(test, cookie)).toEqual(['bob', ['staff'], 'cookie'])
  })

  it('expires, and is due to be renewed before', async () => {
    const test = await withBob()
    const cookie = await cookieOf(test, 'bob', 'pass')
    const session = async (): Promise<Authentication['session']> =>
      (await test.auth.handlers.authenticate(request(cookie))).session
    expect((await session())?.isRenewalDue).toBe(false)
    test.clock.seconds += 61
    const due = await session()
    expect(due?.isRenewalDue).toBe(true)
    const renewed = due && test.auth.renewedCookie(due.record, { isSecure: false })
    test.clock.seconds += 539
    expect(await who(test, cookie)).toEqual([null, [], undefined])
    expect(await who(test, { cookie: renewed?.split(';', 1)[0] })).toEqual(['bob', ['staff'], 'cookie'])
  })

  it.each([
    ['a new password', async (test: TestAuth) => changePassword(test)],
    ['a new secret', async (test: TestAuth) => test.settings.set('service_httpd_auth', 'secret', 'other')],
    ['the end of the user', async (test: TestAuth) => test.databases.delete('_users')],
  ])('is invalid after %s', async (_, change) => {
    const test = await withBob()
    const cookie = await cookieOf(test, 'bob', 'pass')
    await change(test)
    expect(await who(test, cookie)).toEqual([null, [], undefined])
  })

  it('of one user does not stand for another', async () => {
    const test = await withBob()
    await written((await test.users(ADMIN)).write([newUser('ann', 'pass')]))
    const { cookie } = await cookieOf(test, 'bob', 'pass')
    const bytes = Buffer.from(cookie.slice('AuthSession='.length), 'base64url')
    for (const name of ['ann', 'root']) {
      const forged = Buffer.concat([Buffer.from(name), bytes.subarray('bob'.length)])
      expect(await who(test, { cookie: `AuthSession=${forged.toString('base64url')}` })).toEqual([null, [], undefined])
    }
  })

  it('is malformed when it is not a cookie of this server', async () => {
    await expect(who(await withBob(), { cookie: 'AuthSession=xyz' })).rejects.toThrow('bad_request: Malformed')
  })

  it('counts before the password of the same request', async () => {
    const test = await withBob()
    const cookie = await cookieOf(test, 'bob', 'pass')
    expect(await who(test, { ...cookie, ...basic('root', 'wrong') })).toEqual(['bob', ['staff'], 'cookie'])
  })
})

async function changePassword(test: TestAuth): Promise<void> {
  const { id, revision, members } = await read(test, 'bob')
  const edit = put(id, { ...members, password: 'pass' }, { parent: revision })
  await written((await test.users(user('bob', 'staff'))).write([edit]))
}

describe('where a user is required', () => {
  it('only a login is let through', async () => {
    const test = await withBob({ require_valid_user: 'true' })
    for (const url of ['/', '/_session', '/_utils/', '/db/_session']) {
      await expect(who(test, {}, { url })).rejects.toThrow('unauthorized: Authentication required.')
    }
    await expect(who(test, {}, { url: '/_sessions', method: 'POST' })).rejects.toThrow('Authentication required.')
    expect(await who(test, {}, { url: '/_session?next=/', method: 'POST' })).toEqual([null, [], undefined])
    expect(await who(test, basic('bob', 'pass'))).toEqual(['bob', ['staff'], 'default'])
  })
})

describe('the other handlers', () => {
  it('proxy: is asked only where it is listed', async () => {
    const headers = { 'x-auth-service-username': 'ann', 'x-auth-service-roles': '_admin' }
    expect(await who(await withAdmin(), headers)).toEqual([null, [], undefined])
    const test = await withAdmin({}, { httpd: { authentication_handlers: 'cookie, proxy, default' } })
    expect(await who(test, headers)).toEqual(['ann', ['_admin'], 'proxy'])
  })

  it('null: makes everybody an administrator', async () => {
    const test = await withAdmin({}, { httpd: { authentication_handlers: 'null' } })
    expect(await who(test)).toEqual([null, ['_admin'], 'null'])
  })

  it('special: knows users of the configuration', async () => {
    const others = { httpd: { authentication_handlers: 'special' }, special_test_users: { jan: 'apple' } }
    const test = await withAdmin({}, others)
    const header = (text: string) => ({ 'www-authenticate': `X-Service-Test-Auth ${text}` })
    expect(await who(test, header('jan:apple'))).toEqual(['jan', [], 'special'])
    expect(await who(test)).toEqual([null, ['_admin'], 'special'])
    await expect(who(test, header('jan:pear'))).rejects.toThrow(WRONG)
    await expect(who(test, header('constructor:'))).rejects.toThrow(WRONG)
  })
})

describe('OAuth', () => {
  const CONFIGURED = {
    oauth_consumer_secrets: { consumer: 'cs' },
    oauth_token_secrets: { token: 'ts', orphan: 'os' },
    oauth_token_users: { token: 'bob' },
  }

  function signed(key: string, token: string, secrets: { consumer: string; token: string }, method = 'GET') {
    const parameters = { oauth_consumer_key: key, oauth_token: token, oauth_signature_method: 'HMAC-SHA1' }
    const list = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`)
    const unsigned = request({ host: 'h', authorization: `OAuth ${list.join(',')}` }, { url: '/db?x=1', method })
    const names = { host: 'x-forwarded-host', ssl: 'x-forwarded-ssl', proto: 'x-forwarded-proto' }
    const { baseString } = signedRequest(unsigned, names)!
    const signature = encodeURIComponent(expectedSignature({ method: 'HMAC-SHA1', baseString }, secrets))
    return { host: 'h', authorization: `OAuth ${[...list, `oauth_signature="${signature}"`].join(',')}` }
  }
  const target = { url: '/db?x=1' }
  const right = { consumer: 'cs', token: 'ts' }

  it('knows the user of a token of the configuration', async () => {
    const test = await withBob({}, CONFIGURED)
    expect(await who(test, signed('consumer', 'token', right), target)).toEqual(['bob', ['staff'], 'oauth'])
  })

  it('is anonymous when the signature is wrong, or made for something else', async () => {
    const test = await withBob({}, CONFIGURED)
    const nobody = [null, [], undefined]
    expect(await who(test, signed('consumer', 'token', { ...right, token: 'x' }), target)).toEqual(nobody)
    expect(await who(test, signed('consumer', 'token', right), { url: '/db?x=2' })).toEqual(nobody)
    expect(await who(test, signed('consumer', 'token', right), { ...target, method: 'HEAD' })).toEqual(nobody)
  })

  it.each([
    ['other', 'token'],
    ['consumer', 'other'],
    ['consumer', 'orphan'],
    ['consumer', ''],
    ['constructor', '__proto__'],
  ])('refuses the pair %s and %s', async (key, token) => {
    const test = await withBob({}, CONFIGURED)
    await expect(who(test, signed(key, token, right), target)).rejects.toThrow(
      'invalid_consumer_token_pair: Invalid consumer and token pair.',
    )
  })

  it('knows users by the credentials of their documents, as they change', async () => {
    const test = await withBob({}, { service_httpd_oauth: { use_users_db: 'true' } })
    const users = await test.users(ADMIN)
    const oauth = { consumer_keys: { k1: 's1', k2: 's2' }, tokens: { t1: 'z1', t2: 'z2' } }
    const [first = ''] = await written(users.write([newUser('ann', 'pass', { oauth })]))
    expect(await who(test, signed('k2', 't1', { consumer: 's2', token: 'z1' }), target)).toEqual(['ann', [], 'oauth'])
    await written(users.write([newUser('eve', 'pass', { oauth: { consumer_keys: { k1: 'x' }, tokens: { t9: 'y' } } })]))
    expect(await who(test, signed('k1', 't9', { consumer: 'x', token: 'y' }), target)).toEqual(['eve', [], 'oauth'])
    await expect(who(test, signed('k2', 't9', { consumer: 's2', token: 'y' }), target)).rejects.toThrow(
      'Invalid consumer',
    )
    await written(users.write([newUser('tom', 'pass', { oauth: { consumer_keys: { k1: 'q' }, tokens: { t1: 'q' } } })]))
    await expect(who(test, signed('k1', 't1', { consumer: 's1', token: 'z1' }), target)).rejects.toThrow(
      'oauth_token_consumer_key_pair: Found multiple OAuth credentials',
    )
    const id = 'org.service.user:ann'
    await written(users.write([put(id, {}, { parent: first, deleted: true })]))
    expect(await who(test, signed('k1', 't1', { consumer: 'q', token: 'q' }), target)).toEqual(['tom', [], 'oauth'])
  })

  it('takes only requests of now where the operator wants that', async () => {
    const test = await withBob({}, { ...CONFIGURED, service_httpd_oauth: { timestamp_window: '300' } })
    expect(await who(test, signed('consumer', 'token', right), target)).toEqual([null, [], undefined])
  })
})
