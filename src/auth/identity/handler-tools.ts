/** What authentication handlers need. */
import type { Clock } from '../../runtime/clock.ts'
import type { AuthSettings } from '../auth-settings.ts'
import type { Logins } from '../passwords/logins.ts'
import type { OAuthUsers } from '../users/oauth-users.ts'
import type { UserDirectory } from '../users/user-directory.ts'
import type { Recognized } from './recognized.ts'

export interface HandlerTools {
  readonly settings: AuthSettings
  readonly directory: UserDirectory
  readonly logins: Logins
  readonly oauthUsers: OAuthUsers
  readonly clock: Clock
  /** By their cookies, with the time of each. */
  readonly sessions: Recognized<number>
  /** By the passwords in their heads. */
  readonly passwords: Recognized<undefined>
}
