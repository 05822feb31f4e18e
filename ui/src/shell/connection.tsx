/** Whether the server answers. What was read stays on the screen while it does not. */
import { useSyncExternalStore } from 'react'
import { UnreachableError } from '../api/client.ts'

let isLost = false
const listeners = new Set<() => void>()

function set(next: boolean): void {
  if (next === isLost) return
  isLost = next
  for (const listener of listeners) listener()
}

export const connection = {
  failed: (error: unknown) => set(error instanceof UnreachableError),
  succeeded: () => set(false),
}

export function ConnectionBanner() {
  const isShown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => isLost,
  )
  if (!isShown) return null
  return (
    <div className="notice notice-danger banner" role="alert">
      <p>
        <strong>The server does not answer.</strong> What you see is what was read last; it is asked again by itself.
      </p>
    </div>
  )
}
