/**
 * Stored passwords: salted hashes, for administrators as one string of the configuration, for users as members of their
 * document. Slow hashes are computed off the main thread, and all are compared in constant time.
 */
import { createHash, pbkdf2, timingSafeEqual } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { randomUuid } from '../../runtime/uuids.ts'
import { Semaphore } from './semaphore.ts'

export type PasswordScheme = 'simple' | 'pbkdf2'

export interface HashingOptions {
  readonly scheme: PasswordScheme
  /** Of `pbkdf2`; SHA-1 unless given. */
  readonly digest?: string
  readonly iterations: number
}

/** What a password is verified against. */
export type PasswordHash =
  | { readonly scheme: 'simple'; readonly hash: Buffer; readonly salt: string }
  | {
      readonly scheme: 'pbkdf2'
      readonly hash: Buffer
      readonly salt: string
      readonly iterations: number
      /** The name that Node has for the digest. */
      readonly digest: string
    }

/** The members that replace `password` in a user document. */
export type PasswordMembers =
  | { readonly password_scheme: 'simple'; readonly password_sha: string; readonly salt: string }
  | {
      readonly password_scheme: 'pbkdf2'
      /** SHA-1 where there is none. */
      readonly pbkdf2_prf?: string
      readonly iterations: number
      readonly derived_key: string
      readonly salt: string
    }

/** The hash of an administrator's password, as the configuration stores it. */
export async function hashAdminPassword(plain: string, options: HashingOptions): Promise<string> {
  const members = await hashUserPassword(plain, options)
  if (members.password_scheme === 'simple') return `-hashed-${members.password_sha},${members.salt}`
  const prf = members.pbkdf2_prf === undefined ? '' : `:${members.pbkdf2_prf}`
  return `-pbkdf2${prf}-${members.derived_key},${members.salt},${members.iterations}`
}

/** Whether a text is a complete hash, and not a password to be hashed. */
export function isAdminHash(text: string): boolean {
  return parseAdminHash(text) !== undefined
}

/** Whether a text claims to be a hash: no plain password may begin so. */
export function looksLikeAdminHash(text: string): boolean {
  return /^-(hashed|pbkdf2(:\w+)?)-/.test(text)
}

/** Undefined if the text is not a complete hash: a plain password in the settings never allows a login. */
export function parseAdminHash(text: string): PasswordHash | undefined {
  const simple = /^-hashed-([0-9a-f]{40}),([^,\s]+)$/i.exec(text)
  if (simple) return { scheme: 'simple', hash: Buffer.from(simple[1]!, 'hex'), salt: simple[2]! }
  const slow = /^-pbkdf2(?::(\w+))?-([0-9a-f]+),([^,\s]+),([1-9]\d{0,9})$/i.exec(text)
  if (!slow) return undefined
  const [, prf = 'sha', key = '', salt = '', iterations = ''] = slow
  return slowHash(prf, key, salt, Number(iterations))
}

/** New hashes have a queue of their own, apart from logins. */
const hashing = new Semaphore(Math.min(4, availableParallelism()))

/** How many passwords wait to be hashed. */
export function waitingHashes(): number {
  return hashing.waiting
}

export async function hashUserPassword(
  plain: string,
  { scheme, digest = 'sha1', iterations }: HashingOptions,
  salt = randomUuid(),
): Promise<PasswordMembers> {
  if (scheme === 'simple') return { password_scheme: scheme, password_sha: sha(plain, salt).toString('hex'), salt }
  const key = await hashing.run(() => derivedKey(plain, { salt, iterations, digest }))
  return {
    password_scheme: scheme,
    ...(digest !== 'sha1' && { pbkdf2_prf: digest }),
    iterations,
    derived_key: key.toString('hex'),
    salt,
  }
}

/** The stored password of a user document; undefined if it allows no login. */
export function userPasswordHash(document: Readonly<Record<string, unknown>>): PasswordHash | undefined {
  const { password_scheme: scheme = 'simple', salt, password_sha, derived_key } = document
  if (typeof salt !== 'string') return undefined
  if (scheme === 'simple') {
    if (typeof password_sha !== 'string' || !/^[0-9a-f]{40}$/i.test(password_sha)) return undefined
    return { scheme, hash: Buffer.from(password_sha, 'hex'), salt }
  }
  const { iterations = DEFAULT_ITERATIONS, pbkdf2_prf: prf = 'sha' } = document
  if (scheme !== 'pbkdf2' || typeof derived_key !== 'string' || typeof prf !== 'string') return undefined
  if (typeof iterations !== 'number' || !Number.isSafeInteger(iterations) || iterations < 1) return undefined
  return slowHash(prf, derived_key, salt, iterations)
}

/** Whether new hashes take more work than this one. One of another digest than SHA-1 is left as it is. */
export function isWeakerThan(stored: PasswordHash, { scheme, digest = 'sha1', iterations }: HashingOptions): boolean {
  if (scheme === 'simple') return false
  if (stored.scheme === 'simple') return true
  return stored.digest === digest ? stored.iterations < iterations : stored.digest === 'sha1'
}

/**
 * The salt of an upgraded hash. It stays the same if it is long enough: then the sessions of the user stay valid, and
 * servers that replicate their users make the same revision. Two different ones would be a conflict, which prevents
 * logins.
 */
export function keptSalt({ salt }: PasswordHash): string | undefined {
  return salt.length >= KEPT_SALT.least && salt.length <= KEPT_SALT.most ? salt : undefined
}

const KEPT_SALT = { least: 32, most: 128 }

/** The digest that a document or a setting means by this name, as Node calls it. */
export function digestNamed(prf: string): string | undefined {
  return DIGESTS.get(prf)
}

/** Whether a password matches the hash. Without a hash one step of work is done all the same. */
export async function matches(plain: string, stored: PasswordHash | undefined): Promise<boolean> {
  if (stored?.scheme !== 'pbkdf2') await derivedKey(plain, { salt: '', iterations: 1, digest: 'sha1' })
  if (!stored) return false
  const computed = stored.scheme === 'simple' ? sha(plain, stored.salt) : await derivedKey(plain, stored)
  return computed.length === stored.hash.length && timingSafeEqual(computed, stored.hash)
}

/** What a wrong password for this hash costs, in iterations of a digest. */
export function workOf(stored: PasswordHash): { readonly digest: string; readonly iterations: number } {
  if (stored.scheme === 'simple') return { digest: 'sha1', iterations: 1 }
  // A key that is longer than its digest is made of several, each with all iterations.
  const blocks = Math.ceil(stored.hash.length / (DIGEST_BYTES.get(stored.digest) ?? stored.hash.length))
  return { digest: stored.digest, iterations: stored.iterations * blocks }
}

/** Compares texts in constant time. */
export function equalTexts(one: string, other: string): boolean {
  // Digests have equal length, so that not even the length is revealed.
  return timingSafeEqual(createHash('sha256').update(one).digest(), createHash('sha256').update(other).digest())
}

const pbkdf2Promise = promisify(pbkdf2)

interface Derivation {
  readonly salt: string
  readonly iterations: number
  readonly digest: string
  /** The parameters of the key; its length is that of the digest unless given. */
  readonly hash?: Buffer
}

/** Off the main thread. */
export function derivedKey(plain: string, { salt, iterations, digest, hash }: Derivation): Promise<Buffer> {
  const sizeBytes = hash?.length ?? DIGEST_BYTES.get(digest) ?? SHA1_BYTES
  return pbkdf2Promise(plain, salt, iterations, sizeBytes, digest)
}

const SHA1_BYTES = 20

/** The valid range of key lengths. */
const KEY_BYTES = { least: 16, most: 64 }

/** Of documents that do not say. */
const DEFAULT_ITERATIONS = 10_000

const DIGEST_BYTES: ReadonlyMap<string, number> = new Map([
  ['sha1', SHA1_BYTES],
  ['sha224', 28],
  ['sha256', 32],
  ['sha384', 48],
  ['sha512', 64],
])

/** What Node's own derivation takes. */
const MOST_ITERATIONS = 2 ** 31 - 1

/** The names that documents have for digests, and Node's. */
const DIGESTS: ReadonlyMap<string, string> = new Map([
  ['sha', 'sha1'],
  ['sha224', 'sha224'],
  ['sha256', 'sha256'],
  ['sha384', 'sha384'],
  ['sha512', 'sha512'],
])

function sha(plain: string, salt: string): Buffer {
  return createHash('sha1').update(plain).update(salt).digest()
}

function slowHash(prf: string, key: string, salt: string, iterations: number): PasswordHash | undefined {
  const digest = DIGESTS.get(prf)
  const hash = Buffer.from(key, 'hex')
  // The decoder stops at the first invalid digit.
  if (!digest || hash.length * 2 !== key.length) return undefined
  if (hash.length < KEY_BYTES.least || hash.length > KEY_BYTES.most || iterations > MOST_ITERATIONS) return undefined
  if (digest === 'sha1' && hash.length !== SHA1_BYTES) return undefined
  return { scheme: 'pbkdf2', hash, salt, iterations, digest }
}
