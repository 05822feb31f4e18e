/**
 * Short notifications, announced to screen readers and removed after a while. Errors stay until closed, or until
 * something succeeds: an old failure beside a success would be believed.
 */
import { Toast as Primitive } from 'radix-ui'
import { useSyncExternalStore } from 'react'
import { sentenceOf } from '../api/client.ts'
import { Button } from './button.tsx'

interface Message {
  readonly id: number
  readonly text: string
  readonly isError: boolean
}

const SHOWN_MS = 4_000
/** Older ones are dropped. */
const MOST_MESSAGES = 4

let messages: readonly Message[] = []
let lastId = 0
const listeners = new Set<() => void>()

function publish(next: readonly Message[]): void {
  messages = next.slice(-MOST_MESSAGES)
  for (const listener of listeners) listener()
}

export function toast(text: string): void {
  publish([...messages.filter(({ isError }) => !isError), { id: ++lastId, text, isError: false }])
}

export function toastError(what: string, error: unknown): void {
  const text = `${what} ${sentenceOf(error)}`
  // A repeated error is announced again, but shown once.
  publish([...messages.filter((message) => message.text !== text), { id: ++lastId, text, isError: true }])
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => messages,
  )
  return (
    <Primitive.Provider duration={SHOWN_MS} label="Messages">
      {shown.map(({ id, text, isError }) => (
        <Primitive.Root
          key={id}
          className={`toast${isError ? ' toast-error' : ''}`}
          duration={isError ? Number.POSITIVE_INFINITY : SHOWN_MS}
          onOpenChange={(isOpen) => !isOpen && publish(messages.filter((message) => message.id !== id))}
        >
          <Primitive.Description className="toast-text">{text}</Primitive.Description>
          <Primitive.Close asChild>
            <Button kind="quiet" icon="close" aria-label="Dismiss" />
          </Primitive.Close>
        </Primitive.Root>
      ))}
      <Primitive.Viewport className="toasts" />
    </Primitive.Provider>
  )
}
