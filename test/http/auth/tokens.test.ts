/** Users that come with a signed token, where the operator lists that handler and names who may sign. */
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, type Reply } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const SECRET = Buffer.from('a secret that both know')
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const inSetting = (key: typeof rsa.publicKey) =>
  key.export({ type: 'spki', format: 'pem' }).toString().replaceAll('\n', '\\n')

const NOW = Math.floor(Date.now() / 1000)

type Members = Record<string, unknown>

function part(members: unknown): string {
  return Buffer.from(JSON.stringify(members)).toString('base64url')
}

function token(claims: unknown, head: Members = {}, signer = hmac): string {
  const signed = `${part({ alg: 'HS256', typ: 'JWT', ...head })}.${part(claims)}`
  return `${signed}.${signer(signed).toString('base64url')}`
}

const hmac = (signed: string) => createHmac('sha256', SECRET).update(signed).digest()
const byRsa = (signed: string) => sign('sha256', Buffer.from(signed), rsa.privateKey)
const byEc = (signed: string) => sign('sha256', Buffer.from(signed), { key: ec.privateKey, dsaEncoding: 'ieee-p1363' })

async function startServer(jwt: Record<string, string> = {}, handlers = 'jwt, default') {
  const service = await startService({
    settings: {
      admins: { root: 'top' },
      httpd: { authentication_handlers: handlers },
      jwt_auth: jwt,
      jwt_keys: {
        'hmac:_default': SECRET.toString('base64'),
        'hmac:other': Buffer.from('another').toString('base64'),
        'rsa:mine': inSetting(rsa.publicKey),
        'ec:mine': inSetting(ec.publicKey),
        // A public key is no secret.
        'hmac:mine': Buffer.from(inSetting(rsa.publicKey)).toString('base64'),
        'rsa:broken': 'no key at all',
      },
    },
  })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  return (sent: string, path = '/_session'): Promise<Reply> =>
    client.request('GET', path, { headers: { Authorization: `Bearer ${sent}` } })
}

describe('a token', () => {
  it('authenticates its subject, with the roles that it names', async () => {
    const send = await startServer()
    const reply = await send(token({ sub: 'ann', '_service.roles': ['a', 'b', 1] }))
    expect(reply.json).toMatchObject({
      userCtx: { name: 'ann', roles: ['a', 'b'] },
      info: { authenticated: 'jwt', authentication_handlers: ['jwt', 'default'] },
    })
    const family = await send(token({ sub: 'ann', '_couchdb.roles': ['_admin'] }))
    expect(family.json).toMatchObject({ userCtx: { name: 'ann', roles: ['_admin'] } })
    expect((await send(token({ sub: 'ann', '_couchdb.roles': ['_admin'] }), '/_config')).status).toBe(200)
    expect((await send(token({ sub: 'ann' }), '/_config')).status).toBe(401)
  })

  it.each([
    ['RS256', byRsa],
    ['ES256', byEc],
  ])('may be signed with %s', async (alg, signer) => {
    const send = await startServer()
    const reply = await send(token({ sub: 'ann' }, { alg, kid: 'mine' }, signer))
    expect(reply.json).toMatchObject({ userCtx: { name: 'ann', roles: [] } })
    expect((await send(token({ sub: 'ann' }, { alg, kid: 'mine' }))).status).toBe(400)
  })

  it('may have its roles in another claim', async () => {
    const send = await startServer({ roles_claim_name: 'groups' })
    const reply = await send(token({ sub: 'ann', groups: ['a'], '_service.roles': ['b'] }))
    expect(reply.json).toMatchObject({ userCtx: { roles: ['a'] } })
  })

  it.each([
    [{ exp: NOW - 1 }, 401],
    [{ nbf: NOW + 1000 }, 401],
    [{ exp: NOW + 1000, nbf: NOW - 1 }, 200],
    [{ exp: 'soon' }, 400],
  ])('is valid within its time claims: %j', async (claims, status) => {
    const send = await startServer()
    expect((await send(token({ sub: 'ann', ...claims }))).status).toBe(status)
  })

  it.each([
    [{ exp: NOW + 1000, iss: 'https://mine.example' }, 200],
    [{ exp: NOW + 1000, iss: 'https://other.example' }, 400],
    [{ exp: NOW + 1000 }, 400],
    [{ iss: 'https://mine.example' }, 400],
  ])('must have the required claims: %j', async (claims, status) => {
    const send = await startServer({ required_claims: 'exp, {iss, "https://mine.example"}' })
    expect((await send(token({ sub: 'ann', ...claims }))).status).toBe(status)
  })

  it('is refused when its algorithm is not allowed', async () => {
    const send = await startServer({ algorithms: 'RS256, ES256' })
    expect((await send(token({ sub: 'ann' }))).status).toBe(400)
    expect((await send(token({ sub: 'ann' }, { alg: 'RS256', kid: 'mine' }, byRsa))).status).toBe(200)
  })

  it.each([
    ['without a subject', token({ name: 'ann' })],
    ['with an empty subject', token({ sub: '' })],
    ['signed with another key', token({ sub: 'ann' }, { kid: 'other' })],
    ['of an unknown key', token({ sub: 'ann' }, { kid: 'unknown' })],
    ['of a broken key', token({ sub: 'ann' }, { alg: 'RS256', kid: 'broken' }, byRsa)],
    ['of no algorithm', `${part({ alg: 'none' })}.${part({ sub: 'ann' })}.`],
    ['of an algorithm that is no text', token({ sub: 'ann' }, { alg: ['HS256'] })],
    ['without a signature', token({ sub: 'ann' }).replace(/[^.]*$/, '')],
    ['cut short', token({ sub: 'ann' }).slice(0, -1)],
    ['of two parts', 'a.b'],
    ['of four parts', `${token({ sub: 'ann' })}.x`],
    ['that is no JSON', 'eA.eA.eA'],
    ['whose claims are a list', token([])],
    ['signed with what everybody may know', token({ sub: 'ann' }, { kid: 'mine', alg: 'RS256' })],
  ])('is refused %s', async (_, sent) => {
    const send = await startServer()
    const reply = await send(sent)
    expect([reply.status, reply.json]).toMatchObject([400, { error: 'bad_request' }])
  })

  it('is ignored when the handler is not configured', async () => {
    const send = await startServer({}, 'cookie, default')
    expect((await send(token({ sub: 'ann' }))).json).toMatchObject({ userCtx: { name: null } })
    expect((await send('junk')).status).toBe(200)
  })
})
