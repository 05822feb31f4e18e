/** A user as the server knows it, wherever it is stored. */
import { isServerAdmin as hasAdminRole, type UserContext } from '../../database/user-context.ts'
import type { PasswordHash } from '../passwords/passwords.ts'
import type { UserDocument } from './user-documents.ts'

export interface UserRecord {
  readonly name: string
  readonly roles: readonly string[]
  /** Undefined where nobody can log in with a password. */
  readonly password: PasswordHash | undefined
  readonly document: UserDocument | undefined
}

export function contextOf({ name, roles }: UserRecord): UserContext {
  return { name, roles }
}

export function isAdministrator(record: UserRecord): boolean {
  return hasAdminRole(record)
}
