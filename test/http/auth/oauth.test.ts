/** OAuth 1.0 as clients use it: signed requests, and the addresses below `/_oauth`. */
import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile } from '../../support/client.ts'

const client = serverOfFile({
  settings: {
    admins: { root: 'top' },
    oauth_consumer_secrets: { app: 'app secret' },
    oauth_token_secrets: { 'of-root': 'token&secret', 'of-nobody': 'x' },
    oauth_token_users: { 'of-root': 'root', 'of-nobody': 'nobody' },
  },
})

/** With the handlers that come before it out of the way, the addresses answer themselves. */
const bare = serverOfFile({
  settings: {
    httpd: { authentication_handlers: 'default' },
    oauth_consumer_secrets: { app: 'app secret' },
    oauth_token_secrets: { 'of-root': 'token&secret' },
    oauth_token_users: { 'of-root': 'root' },
  },
})

const SECRETS: Record<string, string> = { 'of-root': 'token&secret', 'of-nobody': 'x' }

interface Signing {
  readonly server?: typeof client
  readonly token?: string | undefined
  readonly signatureMethod?: string
  /** Parameters instead of, or beside, the usual ones; undefined leaves one out. */
  readonly parameters?: Record<string, string | undefined>
  readonly inQuery?: boolean
}

const escaped = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)

function signed(method: string, path: string, signing: Signing = {}): Promise<Reply> {
  const { server = client, token = 'of-root', signatureMethod = 'HMAC-SHA1', parameters = {}, inQuery } = signing
  const sent = Object.entries({
    oauth_consumer_key: 'app',
    oauth_token: token,
    oauth_nonce: 'n',
    oauth_timestamp: String(Math.floor(Date.now() / 1000)),
    oauth_signature_method: signatureMethod,
    oauth_version: '1.0',
    ...parameters,
  }).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const [place = '', query = ''] = path.split('?')
  const all = [...sent, ...new URLSearchParams(query)]
    .map(([name, value]) => `${escaped(name)}=${escaped(value)}`)
    .sort()
  const base = [method, `http://${server().host}${place}`, all.join('&')].map(escaped).join('&')
  const key = `${escaped('app secret')}&${escaped(SECRETS[token] ?? '')}`
  const signature = signatureMethod === 'PLAINTEXT' ? key : createHmac('sha1', key).update(base).digest('base64')
  const complete: [string, string][] = [['oauth_signature', signature], ...sent]
  const list = new Map([...complete, ...Object.entries(parameters)])
  const given = [...list].filter((entry): entry is [string, string] => entry[1] !== undefined)
  if (inQuery) {
    const text = given.map(([name, value]) => `${escaped(name)}=${escaped(value)}`).join('&')
    return server().request(method, `${place}?${query === '' ? '' : `${query}&`}${text}`)
  }
  const Authorization = `OAuth realm="", ${given.map(([name, value]) => `${name}="${escaped(value)}"`).join(', ')}`
  return server().request(method, path, { headers: { Authorization } })
}

describe('a signed request', () => {
  it.each([
    ['in its head', {}],
    ['in its query', { inQuery: true }],
    ['in plain text', { signatureMethod: 'PLAINTEXT' }],
  ])('is authenticated as the user of its token, %s', async (_, signing) => {
    const reply = await signed('GET', '/_session?x=a%20b', signing)
    expect(reply.json).toMatchObject({ userCtx: { name: 'root', roles: ['_admin'] }, info: { authenticated: 'oauth' } })
    expect((await signed('GET', '/_config/log/level', signing)).status).toBe(200)
  })

  it('that is not signed correctly is anonymous', async () => {
    const wrong = { parameters: { oauth_signature: 'wrong' } }
    expect((await signed('GET', '/_session', wrong)).json).toMatchObject({ userCtx: { name: null, roles: [] } })
    expect((await signed('GET', '/_config', wrong)).status).toBe(401)
  })

  it('is anonymous when the user of its token does not exist', async () => {
    const reply = await signed('GET', '/_session', { token: 'of-nobody' })
    expect(reply.json).toMatchObject({ userCtx: { name: null, roles: [] } })
  })

  it.each([
    ['an unknown consumer', { oauth_consumer_key: 'other' }, 'invalid_consumer_token_pair'],
    ['no token', { oauth_token: undefined }, 'invalid_consumer_token_pair'],
    ['another version', { oauth_version: '2.0' }, 'invalid_oauth_version'],
    ['a method that is not known', { oauth_signature_method: 'RSA-SHA1' }, 'invalid_signature'],
  ])('is refused with %s', async (_, parameters, error) => {
    const reply = await signed('GET', '/', { parameters })
    expect([reply.status, reply.json]).toEqual([400, expect.objectContaining({ error })])
  })

  it('expires after the configured window', async () => {
    const old = { parameters: { oauth_timestamp: String(Math.floor(Date.now() / 1000) - 1000) } }
    const nameOf = async (reply: Promise<Reply>) =>
      (await reply).as<{ userCtx: { name: string | null } }>().userCtx.name
    const set = (method: string, body?: string) =>
      client().request(method, '/_config/service_httpd_oauth/timestamp_window', {
        headers: { Authorization: `Basic ${btoa('root:top')}` },
        body,
      })
    expect(await nameOf(signed('GET', '/_session', old))).toBe('root')
    expect((await set('PUT', '"300"')).status).toBe(200)
    expect(await nameOf(signed('GET', '/_session', old))).toBeNull()
    expect(await nameOf(signed('GET', '/_session'))).toBe('root')
    await set('DELETE')
  })

  it('may be signed with credentials of the user document', async () => {
    const admin = { Authorization: `Basic ${btoa('root:top')}` }
    const oauth = { consumer_keys: { app: 'app secret' }, tokens: { 'of-root': 'token&secret' } }
    const user = { name: 'ann', password: 'x', roles: ['r'], type: 'user', oauth }
    await client().request('PUT', '/_users/org.service.user:ann', { headers: admin, body: user })
    const usesUsers = (body: string) =>
      client().request('PUT', '/_config/service_httpd_oauth/use_users_db', { headers: admin, body })
    await usesUsers('"true"')
    expect((await signed('GET', '/_session')).json).toMatchObject({ userCtx: { name: 'ann', roles: ['r'] } })
    await client().request('PUT', '/_users/org.service.user:bob', { headers: admin, body: { ...user, name: 'bob' } })
    const ambiguous = await signed('GET', '/')
    expect([ambiguous.status, ambiguous.json]).toEqual([
      400,
      { error: 'oauth_token_consumer_key_pair', reason: expect.stringMatching(/^Found multiple OAuth credentials/) },
    ])
    await usesUsers('"false"')
  })
})

describe('the OAuth endpoints', () => {
  const REQUEST = 'oauth_token=requestkey&oauth_token_secret=requestsecret'
  const ACCESS = 'oauth_token=accesskey&oauth_token_secret=accesssecret'

  it.each([
    ['GET', 'request_token', REQUEST],
    ['POST', 'request_token', REQUEST],
    ['PUT', 'request_token', REQUEST],
    ['GET', 'authorize', REQUEST],
    ['POST', 'authorize', REQUEST],
    ['GET', 'access_token', ACCESS],
    ['HEAD', 'access_token', ''],
  ])('%s /_oauth/%s issues tokens to a signed request', async (method, name, body) => {
    for (const signing of [{}, { inQuery: true }, { server: bare }]) {
      const reply = await signed(method, `/_oauth/${name}`, signing)
      expect([reply.status, reply.text]).toEqual([200, body])
      expect(reply.headers['content-type']).toBe('application/x-www-form-urlencoded')
    }
  })

  it.each([
    ['POST', 'access_token', 'GET'],
    ['PUT', 'authorize', 'GET,POST'],
  ])('%s /_oauth/%s is not allowed', async (method, name, allow) => {
    const reply = await signed(method, `/_oauth/${name}`)
    expectRefusal(reply, 405, 'method_not_allowed', `Only ${allow} allowed`)
    expect(reply.headers.allow).toBe(allow)
  })

  it.each(['', '/', '/other', '/request_token/x'])('/_oauth%s answers 404', async (rest) => {
    expectRefusal(await client().request('GET', `/_oauth${rest}`), 404, 'not_found', 'missing')
  })

  it.each(['request_token', 'authorize', 'access_token'])(
    '/_oauth/%s says what is wrong with a request',
    async (name) => {
      const path = `/_oauth/${name}`
      const pair = 'Invalid consumer and token pair.'
      expectRefusal(await client().request('GET', path), 400, 'invalid_consumer', 'Invalid consumer.')
      for (const server of [client, bare]) {
        const refused = (parameters: Record<string, string | undefined>) => signed('GET', path, { server, parameters })
        const version = await refused({ oauth_version: '1.1' })
        expectRefusal(version, 400, 'invalid_oauth_version', 'Invalid OAuth version.')
        const other = await refused({ oauth_token: 'other' })
        expectRefusal(other, 400, 'invalid_consumer_token_pair', pair)
        const wrong = await refused({ oauth_signature: 'wrong' })
        expectRefusal(wrong, 400, 'invalid_signature', 'Invalid signature value.')
      }
      const without = await signed('GET', path, { server: bare, parameters: { oauth_token: undefined } })
      if (name === 'access_token') expectRefusal(without, 400, 'invalid_token', 'Invalid OAuth token.')
      else expectRefusal(without, 400, 'invalid_consumer_token_pair', pair)
    },
  )
})
