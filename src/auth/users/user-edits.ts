/** Edits the text of a user document: other members keep their digits and order. */
import { badRequest } from '../../document/request-error.ts'
import { JsonReader, scanDocument } from '../../encoding/json/json-text.ts'
import { quoteText, spliceObject } from '../../encoding/json/json-text-splice.ts'
import { type HashingOptions, hashUserPassword, type PasswordMembers } from '../passwords/passwords.ts'

/** All members about passwords. */
const PASSWORD_MEMBERS = new Set([
  'password',
  'password_scheme',
  'password_sha',
  'derived_key',
  'salt',
  'iterations',
  'pbkdf2_prf',
])

/** The body with the password replaced by its hash, and its revision term. */
export async function withHashedPassword(
  body: Buffer,
  password: unknown,
  options: HashingOptions,
): Promise<{ body: Buffer; term: Buffer }> {
  if (typeof password !== 'string') throw badRequest('Password value must be a string.')
  return withPasswordMembers(body, await hashUserPassword(password, options))
}

export function withPasswordMembers(body: Buffer, members: PasswordMembers): { body: Buffer; term: Buffer } {
  const kept = memberTexts(body, (name) => !PASSWORD_MEMBERS.has(name))
  const hashed = JSON.stringify(members).slice(1, -1)
  const { body: whole, term } = scanDocument(spliceObject([...kept, hashed]))
  return { body: whole, term }
}

/** An object of only these members. */
export function pickMembers(body: Buffer, names: ReadonlySet<string>): Buffer {
  return spliceObject(memberTexts(body, (name) => names.has(name)))
}

/** The texts of chosen members, each with its name, for `spliceObject`. */
export function memberTexts(body: Buffer, isWanted: (name: string) => boolean): Buffer[] {
  const reader = new JsonReader(body)
  const texts: Buffer[] = []
  for (const name of reader.members()) {
    if (isWanted(name)) texts.push(Buffer.concat([Buffer.from(`${quoteText(name)}:`), reader.text()]))
  }
  reader.end()
  return texts
}
