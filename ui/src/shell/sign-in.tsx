/** The sign-in form: as a page, and as a dialog when the session has expired. */
import { type FormEvent, useEffect, useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { createAdministrator, signIn, useSessionChange } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Field } from '../parts/field.tsx'
import { Icon } from '../parts/icon.tsx'
import { toast } from '../parts/toast.tsx'

interface SignInPageProperties {
  readonly reason?: string | undefined
  onDone(): void
}

export function SignInPage({ reason, onDone }: SignInPageProperties) {
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [failure, setFailure] = useState<string>()
  const changed = useSessionChange()
  useEffect(() => {
    document.title = 'Sign in · Settle'
  }, [])
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    try {
      await signIn(name, password)
      await changed()
      onDone()
    } catch (error) {
      setFailure(sentenceOf(error))
    }
  }
  return (
    <main className="sign-in">
      <form className="sign-in-card" onSubmit={submit}>
        <h1 className="brand">
          <Icon name="layers" />
          Settle
        </h1>
        {reason !== undefined && <p className="muted">{reason}</p>}
        <Field
          label="Name"
          name="name"
          autoComplete="username"
          autoFocus
          required
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
        <Field
          label="Password"
          name="password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          error={failure}
          onChange={({ target }) => setPassword(target.value)}
        />
        <Button kind="primary" type="submit">
          Sign in
        </Button>
      </form>
    </main>
  )
}

interface SignInDialogProperties {
  readonly name: string
  onDone(isSignedIn: boolean): void
}

/** The screen behind it stays as it is. */
export function SignInDialog({ name, onDone }: SignInDialogProperties) {
  const [password, setPassword] = useState('')
  return (
    <FormDialog
      title="Your session has ended"
      action="Sign in"
      onClose={() => onDone(false)}
      onSubmit={async () => {
        await signIn(name, password)
        onDone(true)
      }}
    >
      <p>Enter the password of {name} to go on where you were. Nothing you typed is lost.</p>
      <Field
        label="Password"
        type="password"
        autoComplete="current-password"
        autoFocus
        value={password}
        onChange={({ target }) => setPassword(target.value)}
      />
    </FormDialog>
  )
}

const SHORTEST_PASSWORD = 8

export function FirstAdministratorDialog({ onClose }: { onClose(): void }) {
  const [name, setName] = useState('admin')
  const [password, setPassword] = useState('')
  const [again, setAgain] = useState('')
  const changed = useSessionChange()
  const isLong = password.length >= SHORTEST_PASSWORD
  return (
    <FormDialog
      title="Create the first administrator"
      action="Create and sign in"
      isReady={name !== '' && isLong && password === again}
      onClose={onClose}
      onSubmit={async () => {
        await createAdministrator(name, password)
        await changed()
        toast(`${name} is now the administrator of this server.`)
      }}
    >
      <p className="muted">From then on only administrators can create databases, change settings and see the log.</p>
      <Field label="Name" autoComplete="username" value={name} onChange={({ target }) => setName(target.value)} />
      <Field
        label="Password"
        type="password"
        autoComplete="new-password"
        autoFocus
        value={password}
        hint={`At least ${SHORTEST_PASSWORD} characters.`}
        onChange={({ target }) => setPassword(target.value)}
      />
      <Field
        label="Password again"
        type="password"
        autoComplete="new-password"
        value={again}
        error={again !== '' && isLong && again !== password ? 'The passwords differ.' : undefined}
        onChange={({ target }) => setAgain(target.value)}
      />
    </FormDialog>
  )
}
