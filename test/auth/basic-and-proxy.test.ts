import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AuthSettings } from '../../src/auth/auth-settings.ts'
import { basicCredentials, proxyUser } from '../../src/auth/identity/handlers.ts'
import { basic, request, type Settings, TestSettings } from './test-auth.ts'

describe('the Basic scheme', () => {
  it('gives name and password, which may have colons', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (text, password) => {
        const name = text.replaceAll(':', '')
        fc.pre(name !== '_')
        expect(basicCredentials(basic(name, password).authorization)).toEqual({ name, password })
      }),
    )
  })

  it.each(['basic', 'BASIC', 'bAsIc'])('is called %s too', (scheme) => {
    const authorization = `${scheme} ${Buffer.from('a:b').toString('base64')}`
    expect(basicCredentials(authorization)).toEqual({ name: 'a', password: 'b' })
  })

  it.each([
    [undefined],
    [''],
    ['Basic'],
    ['Basic '],
    ['Basic !!!'],
    [`Basic${Buffer.from('a:b').toString('base64')}`],
    [`Bearer ${Buffer.from('a:b').toString('base64')}`],
    [`Basic ${Buffer.from('no colon').toString('base64')}`],
    [`Basic ${Buffer.from('_:_').toString('base64')}`],
  ])('returns nothing for %s', (authorization) => {
    expect(basicCredentials(authorization)).toBeUndefined()
  })
})

function seen(headers: Record<string, string>, auth: Record<string, string> = {}) {
  const settings: Settings = { service_httpd_auth: auth }
  return proxyUser(request(headers), new AuthSettings(new TestSettings(settings)))
}

function token(name: string, secret: string): string {
  return createHmac('sha1', secret).update(name).digest('hex')
}

describe('a user that a proxy vouches for', () => {
  it('has the name and the roles of the headers, by either of their names', () => {
    const known = { name: 'ann', roles: ['a', ' b'] }
    expect(seen({ 'x-auth-service-username': 'ann', 'x-auth-service-roles': 'a, b,,' })).toEqual(known)
    expect(seen({ 'x-auth-couchdb-username': 'ann', 'x-auth-couchdb-roles': 'a, b' })).toEqual(known)
    expect(seen({ 'x-auth-couchdb-username': 'bob', 'x-auth-service-username': 'ann' })).toEqual({
      name: 'ann',
      roles: [],
    })
  })

  it('is anonymous without a name', () => {
    expect(seen({ 'x-auth-service-roles': '_admin' })).toBeUndefined()
    expect(seen({ 'x-auth-service-username': '', 'x-auth-service-roles': '_admin' })).toBeUndefined()
  })

  it('has a name in UTF-8', () => {
    const name = Buffer.from('Jürgen').toString('latin1')
    expect(seen({ 'x-auth-service-username': name })?.name).toBe('Jürgen')
  })

  it('comes in headers that the operator names', () => {
    const auth = { x_auth_username: 'X-User', x_auth_roles: 'X-Roles' }
    expect(seen({ 'x-user': 'ann', 'x-roles': 'r' }, auth)).toEqual({ name: 'ann', roles: ['r'] })
    expect(seen({ 'x-auth-service-username': 'ann' }, auth)).toBeUndefined()
  })

  describe('who must be proved', () => {
    const auth = { proxy_use_secret: 'true', secret: 's3cret' }
    const named = { 'x-auth-service-username': 'ann' }

    it('is taken with the token of the name', () => {
      expect(seen({ ...named, 'x-auth-service-token': token('ann', 's3cret') }, auth)?.name).toBe('ann')
    })

    it.each([
      ['no token', {}],
      ['an empty token', { 'x-auth-service-token': '' }],
      ['the token of another name', { 'x-auth-service-token': token('bob', 's3cret') }],
      ['the token of another secret', { 'x-auth-service-token': token('ann', 'other') }],
      ['a part of the token', { 'x-auth-service-token': token('ann', 's3cret').slice(0, 39) }],
      ['the token in capitals', { 'x-auth-service-token': token('ann', 's3cret').toUpperCase() }],
    ])('is not accepted with %s', (_, headers) => {
      expect(seen({ ...named, ...headers }, auth)).toBeUndefined()
    })

    it('is not accepted while there is no secret', () => {
      const headers = { ...named, 'x-auth-service-token': token('ann', '') }
      expect(seen(headers, { proxy_use_secret: 'true' })).toBeUndefined()
      expect(seen(headers, { proxy_use_secret: 'true', secret: '' })).toBeUndefined()
    })
  })
})
