/** Administrators' passwords in settings: whatever way one comes in, only its hash stays. */
import { SettingError } from './setting-rules.ts'

/** How passwords are hashed is the business of authentication; it is handed in. */
export interface AdminPasswords {
  isHash(value: string): boolean
  /** Begins like a hash, whole or not. */
  looksLikeHash(value: string): boolean
  hash(plain: string, how: { scheme: 'simple' | 'pbkdf2'; digest?: 'sha256'; iterations: number }): Promise<string>
}

export const ADMINS = 'admins'

/** What begins like a hash and is none is refused, so that nobody takes it for one. */
export function checkAdminPassword(passwords: AdminPasswords, value: string): void {
  if (passwords.looksLikeHash(value) && !passwords.isHash(value)) {
    throw new SettingError('A password cannot begin like a hash.')
  }
}
