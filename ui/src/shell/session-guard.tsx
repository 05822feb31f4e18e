/** Handles an expired session: asks for the password once; all refused requests wait for it and are then sent again. */
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { onSessionExpired } from '../api/client.ts'
import { readSession, SESSION_KEY, type Session } from '../api/session.ts'
import { SignInDialog } from './sign-in.tsx'

export function SessionGuard() {
  const queries = useQueryClient()
  const [asked, setAsked] = useState<{ name: string; answer: (isSignedIn: boolean) => void }>()
  const pending = useRef<Promise<boolean>>(undefined)
  useEffect(() => {
    const ask = async (): Promise<boolean> => {
      const known = queries.getQueryData<Session>(SESSION_KEY)
      if (!known || known.name === null) return false
      const now = await readSession()
      // Still signed in: the user lacks a right, and a password does not help.
      if (now.name === known.name) return false
      const { name } = known
      return new Promise((resolve) => setAsked({ name, answer: resolve }))
    }
    onSessionExpired(() => {
      pending.current ??= ask().finally(() => {
        pending.current = undefined
      })
      return pending.current
    })
  }, [queries])
  if (!asked) return null
  return (
    <SignInDialog
      name={asked.name}
      onDone={(isSignedIn) => {
        asked.answer(isSignedIn)
        setAsked(undefined)
        if (!isSignedIn) void queries.resetQueries({ queryKey: SESSION_KEY })
      }}
    />
  )
}
