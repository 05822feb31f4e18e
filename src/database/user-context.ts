/** Who sends a request: the authenticated name, if any, and its roles. */

export interface UserContext {
  /** Null for whoever did not say. */
  readonly name: string | null
  readonly roles: readonly string[]
  /** There is no administrator, so that everybody may do everything. The roles stay what they are. */
  readonly isUnbound?: true
}

/** The role of server administrators; it passes every check. */
export const ADMIN_ROLE = '_admin'

export const ANONYMOUS: UserContext = { name: null, roles: [] }

/** The server itself, and everybody while there is no administrator. */
export const NAMELESS_ADMIN: UserContext = { name: null, roles: [ADMIN_ROLE] }

export function isServerAdmin({ roles, isUnbound }: UserContext): boolean {
  return isUnbound === true || roles.includes(ADMIN_ROLE)
}
