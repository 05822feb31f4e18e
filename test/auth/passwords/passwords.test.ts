import { createHash, pbkdf2Sync } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  equalTexts,
  hashAdminPassword,
  hashUserPassword,
  isAdminHash,
  looksLikeAdminHash,
  matches,
  parseAdminHash,
  userPasswordHash,
} from '../../../src/auth/passwords/passwords.ts'

async function verifiesAdmin(password: string, text: string): Promise<boolean> {
  const hash = parseAdminHash(text)
  return hash !== undefined && matches(password, hash)
}

describe("an administrator's password", () => {
  it('is written as the interface has it: SHA-1 of the password and the salt after it', async () => {
    const text = await hashAdminPassword('sécret', { scheme: 'simple', iterations: 10 })
    const [, hash, salt] = /^-hashed-([0-9a-f]{40}),([0-9a-f]{32})$/.exec(text) ?? []
    expect(hash).toBe(createHash('sha1').update(`sécret${salt}`).digest('hex'))
  })

  it('is written as PBKDF2 where that is asked for, with the salt as text', async () => {
    const text = await hashAdminPassword('secret', { scheme: 'pbkdf2', iterations: 12 })
    const [, hash, salt = ''] = /^-pbkdf2-([0-9a-f]{40}),([0-9a-f]{32}),12$/.exec(text) ?? []
    expect(hash).toBe(pbkdf2Sync('secret', salt, 12, 20, 'sha1').toString('hex'))
  })

  it('has a salt of its own each time', async () => {
    const options = { scheme: 'simple', iterations: 10 } as const
    expect(await hashAdminPassword('x', options)).not.toBe(await hashAdminPassword('x', options))
  })

  it('is verified, and nothing else is', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary' }),
        fc.string({ unit: 'binary' }),
        fc.constantFrom('simple' as const, 'pbkdf2' as const),
        async (right, other, scheme) => {
          const text = await hashAdminPassword(right, { scheme, iterations: 2 })
          expect(await verifiesAdmin(right, text)).toBe(true)
          if (other !== right) expect(await verifiesAdmin(other, text)).toBe(false)
        },
      ),
      { numRuns: 60 },
    )
  })

  it.each([
    '-hashed-0123456789012345678901234567890123456789,salt',
    '-pbkdf2-0123456789012345678901234567890123456789,salt,10',
    `-pbkdf2:sha256-${'ab'.repeat(32)},salt,600000`,
  ])('is a hash when it is complete: %s', (text) => {
    expect([isAdminHash(text), looksLikeAdminHash(text)]).toEqual([true, true])
  })

  it.each([
    '-hashed-',
    '-hashed-012345678901234567890123456789012345678,salt',
    '-hashed-01234567890123456789012345678901234567890,salt',
    '-hashed-zz23456789012345678901234567890123456789,salt',
    '-hashed-0123456789012345678901234567890123456789',
    '-hashed-0123456789012345678901234567890123456789,',
    '-hashed-0123456789012345678901234567890123456789,a,b',
    '-hashed-0123456789012345678901234567890123456789,a\nb',
    '-pbkdf2-0123456789012345678901234567890123456789,salt',
    '-pbkdf2-0123456789012345678901234567890123456789,salt,0',
    '-pbkdf2-0123456789012345678901234567890123456789,salt,-1',
    '-pbkdf2-0123456789012345678901234567890123456789,salt,1e3',
    '-pbkdf2-0123456789012345678901234567890123456789,salt,9999999999',
    '-pbkdf2-01,salt,10',
    '-pbkdf2-012345678901234567890123456789012345678,salt,10',
    `-pbkdf2:md5-${'ab'.repeat(20)},salt,10`,
  ])('is not a hash when it is incomplete: %s', async (text) => {
    expect([isAdminHash(text), looksLikeAdminHash(text)]).toEqual([false, true])
    expect(await verifiesAdmin('', text)).toBe(false)
  })

  it.each(['secret', '', 'hashed-x', ' -hashed-x'])('does not look like a hash when it is plain: %s', (text) => {
    expect([isAdminHash(text), looksLikeAdminHash(text)]).toEqual([false, false])
  })
})

describe("a user's password", () => {
  it('is kept in members of the document', async () => {
    expect(await hashUserPassword('x', { scheme: 'pbkdf2', iterations: 7 })).toEqual({
      password_scheme: 'pbkdf2',
      iterations: 7,
      derived_key: expect.stringMatching(/^[0-9a-f]{40}$/),
      salt: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
    expect(await hashUserPassword('x', { scheme: 'simple', iterations: 7 })).toEqual({
      password_scheme: 'simple',
      password_sha: expect.stringMatching(/^[0-9a-f]{40}$/),
      salt: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
  })

  it.each(['simple', 'pbkdf2'] as const)('is verified in the scheme %s', async (scheme) => {
    const hash = userPasswordHash(await hashUserPassword('right', { scheme, iterations: 3 }))
    expect(hash && (await matches('right', hash))).toBe(true)
    expect(hash && (await matches('wrong', hash))).toBe(false)
  })

  it('is of the simple scheme when the document does not say', async () => {
    const password_sha = createHash('sha1').update('rightsalt').digest('hex')
    const hash = userPasswordHash({ password_sha, salt: 'salt' })
    expect(hash && (await matches('right', hash))).toBe(true)
  })

  it('took 10,000 iterations when the document does not say', async () => {
    const derived_key = pbkdf2Sync('right', 'salt', 10_000, 20, 'sha1').toString('hex')
    const hash = userPasswordHash({ password_scheme: 'pbkdf2', derived_key, salt: 'salt' })
    expect(hash && (await matches('right', hash))).toBe(true)
  })

  it.each([
    ['sha256', 32],
    ['sha512', 64],
    ['sha384', 48],
    ['sha224', 28],
  ])('may have been hashed by newer servers with %s', async (pbkdf2_prf, bytes) => {
    const derived_key = pbkdf2Sync('right', 'salt', 4, bytes, pbkdf2_prf).toString('hex')
    const hash = userPasswordHash({ password_scheme: 'pbkdf2', pbkdf2_prf, derived_key, iterations: 4, salt: 'salt' })
    expect(hash && (await matches('right', hash))).toBe(true)
    expect(hash && (await matches('right ', hash))).toBe(false)
  })

  it.each([
    [{}],
    [{ password_scheme: 'pbkdf2', derived_key: 'ab'.repeat(20), iterations: 1 }],
    [{ password_scheme: 'pbkdf2', derived_key: '', salt: 's', iterations: 1 }],
    [{ password_scheme: 'pbkdf2', derived_key: 'ab', salt: 's', iterations: 1 }],
    [{ password_scheme: 'pbkdf2', derived_key: 'ab'.repeat(20), salt: 's', iterations: 0 }],
    [{ password_scheme: 'pbkdf2', derived_key: 'ab'.repeat(20), salt: 's', iterations: 1.5 }],
    [{ password_scheme: 'pbkdf2', derived_key: 'ab'.repeat(20), salt: 's', iterations: 1e12 }],
    [{ password_scheme: 'pbkdf2', derived_key: 'ab'.repeat(20), salt: 's', pbkdf2_prf: 'md5' }],
    [{ password_scheme: 'pbkdf2', derived_key: 'ab'.repeat(20), salt: 5 }],
    [{ password_scheme: 'none', password_sha: 'ab'.repeat(20), salt: 's' }],
    [{ password_sha: '', salt: 's' }],
    [{ password_sha: null, salt: 's' }],
    [{ password_sha: 'ab'.repeat(20) }],
  ])('cannot be used to log in: %j', (document) => {
    expect(userPasswordHash(document)).toBeUndefined()
  })
})

it('texts are compared without a word about where they differ', () => {
  expect(equalTexts('abc', 'abc')).toBe(true)
  for (const other of ['', 'ab', 'abd', 'abcd']) expect(equalTexts('abc', other)).toBe(false)
})
