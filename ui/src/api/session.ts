/** The user of the interface, and the user's rights. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { path, requestJson, requestText } from './client.ts'

export interface Session {
  readonly name: string | null
  readonly roles: readonly string[]
  /** There is no administrator yet, so everybody may do everything. */
  readonly isOpen: boolean
  readonly isAdmin: boolean
  readonly usersDatabase: string
}

interface SessionReply {
  readonly userCtx: { readonly name: string | null; readonly roles: readonly string[] }
  readonly info: { readonly authentication_db?: string }
}

export async function readSession(): Promise<Session> {
  const { userCtx, info } = await requestJson<SessionReply>('_session')
  const isAdmin = userCtx.roles.includes('_admin')
  return {
    name: userCtx.name,
    roles: userCtx.roles,
    isAdmin,
    isOpen: isAdmin && userCtx.name === null,
    usersDatabase: info.authentication_db ?? '_users',
  }
}

export async function signIn(name: string, password: string): Promise<void> {
  await requestText('_session', { method: 'POST', json: { name, password } })
}

export async function signOut(): Promise<void> {
  await requestText('_session', { method: 'DELETE' })
}

export async function createAdministrator(name: string, password: string): Promise<void> {
  await requestText(path('_config', 'admins', name), { method: 'PUT', json: password })
  await signIn(name, password)
}

export const SESSION_KEY = ['session'] as const

const NOBODY: Session = { name: null, roles: [], isOpen: false, isAdmin: false, usersDatabase: '_users' }

/** The session, for components that are shown once it is known. */
export function useSession(): Session {
  return useQuery({ queryKey: SESSION_KEY, queryFn: readSession, staleTime: 60_000 }).data ?? NOBODY
}

/** After signing in or out everything is loaded again. */
export function useSessionChange(): () => Promise<void> {
  const queries = useQueryClient()
  return async () => {
    await queries.resetQueries({ queryKey: SESSION_KEY })
    await queries.invalidateQueries()
  }
}
