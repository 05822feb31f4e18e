/** Who looks at the interface, and what that lets them do. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { path, requestJson, requestText } from './client.ts'

export interface Session {
  readonly name: string | null
  readonly roles: readonly string[]
  /** Everybody may do everything: there is no administrator yet. */
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

/** Of the part of the interface that is shown once the session is known. */
export function useSession(): Session {
  return useQuery({ queryKey: SESSION_KEY, queryFn: readSession, staleTime: 60_000 }).data ?? NOBODY
}

/** After signing in or out everything is asked again. */
export function useSessionChange(): () => Promise<void> {
  const queries = useQueryClient()
  return async () => {
    await queries.resetQueries({ queryKey: SESSION_KEY })
    await queries.invalidateQueries()
  }
}
