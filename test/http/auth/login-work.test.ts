import { createHash, pbkdf2Sync } from 'node:crypto'
import { expect, it, vi } from 'vitest'
import { serverOfFile } from '../../support/client.ts'

/** What was derived: the server of this file runs in this process. */
const derived = vi.hoisted(() => ({ steps: 0, iterations: new Map<string, number>() }))

vi.mock('node:crypto', async (original) => {
  const crypto = await original<typeof import('node:crypto')>()
  const pbkdf2: typeof crypto.pbkdf2 = (password, salt, iterations, bytes, digest, callback) => {
    const blocks = Math.ceil(bytes / createHash(digest).digest().length)
    derived.steps++
    derived.iterations.set(digest, (derived.iterations.get(digest) ?? 0) + iterations * blocks)
    crypto.pbkdf2(password, salt, iterations, bytes, digest, callback)
  }
  return { ...crypto, default: { ...crypto, pbkdf2 }, pbkdf2 }
})

const ADMIN = { Authorization: `Basic ${Buffer.from('root:right').toString('base64')}` }
const SALT = 'a1b2'

function slowKey(iterations: number, bytes: number, digest: string): string {
  return pbkdf2Sync('right', SALT, iterations, bytes, digest).toString('hex')
}

const client = serverOfFile({
  settings: {
    admins: {
      root: `-hashed-${createHash('sha1').update(`right${SALT}`).digest('hex')},${SALT}`,
      'slow-root': `-pbkdf2-${slowKey(700, 20, 'sha1')},${SALT},700`,
    },
    service_httpd_auth: { iterations: '5000', pbkdf2_prf: 'sha512', login_free_tries: '1000' },
  },
})

async function save(name: string, members: object): Promise<void> {
  const document = { name, type: 'user', roles: [], ...members }
  const reply = await client().request('PUT', `/_users/org.service.user:${name}`, { headers: ADMIN, body: document })
  expect(reply.status, reply.text).toBe(201)
}

/** What a wrong password for a name costs. */
async function cost(name: string, way: 'basic' | 'form'): Promise<{ steps: number; [digest: string]: number }> {
  derived.steps = 0
  derived.iterations.clear()
  const authorization = `basic ${Buffer.from(`${name}:wrong`).toString('base64')}`
  const reply =
    way === 'basic'
      ? await client().request('GET', '/', { headers: { Authorization: authorization } })
      : await client().request('POST', '/_session', { body: { name, password: 'wrong' } })
  expect([reply.status, reply.as<{ reason: string }>().reason]).toEqual([401, 'Name or password is incorrect.'])
  return { steps: derived.steps, ...Object.fromEntries(derived.iterations) }
}

it('costs the same work for a wrong password, whether the user exists or not', async () => {
  const old = { password_scheme: 'pbkdf2', iterations: 10, derived_key: slowKey(10, 20, 'sha1'), salt: SALT }
  await save('old', old)
  await save('simple', {
    password_scheme: 'simple',
    password_sha: createHash('sha1').update(`right${SALT}`).digest('hex'),
    salt: SALT,
  })
  await save('new', { password: 'right' })
  await save('slower', { ...old, iterations: 7000, derived_key: slowKey(7000, 20, 'sha1') })
  const foreign = { pbkdf2_prf: 'sha256', iterations: 2000, derived_key: slowKey(2000, 64, 'sha256') }
  await save('foreign', { ...old, ...foreign })
  await save('without', {})
  // Those who take more than new hashes do set the measure for all.
  for (const name of ['slower', 'foreign']) await cost(name, 'basic')
  const names = ['old', 'simple', 'new', 'slower', 'foreign', 'without', 'root', 'slow-root', 'nobody', 'no such name']
  for (const way of ['basic', 'form'] as const) {
    for (const name of names) {
      const { steps, sha1 = 0, sha256 = 0, sha512 = 0, ...others } = await cost(name, way)
      expect({ name, steps, others }).toEqual({ name, steps: 4, others: {} })
      // To a few iterations of thousands.
      expect(
        [sha1, sha256, sha512].map((each) => Math.round(each / 10) * 10),
        name,
      ).toEqual([7000, 4000, 5000])
    }
  }
})

it('costs the same for concurrent requests', async () => {
  const steps: number[] = []
  for (const name of ['old', 'nobody']) {
    derived.steps = 0
    const headers = { Authorization: `Basic ${Buffer.from(`${name}:guess`).toString('base64')}` }
    await Promise.all(Array.from({ length: 20 }, () => client().request('GET', '/', { headers })))
    // They share the work where they come together; it is never one part of it alone.
    steps.push(derived.steps % 4)
  }
  expect(steps).toEqual([0, 0])
})
