/**
 * Whether the server answers. Loaded data stays on the screen while it does not. It is polled every second until it is
 * back; then everything visible is loaded again.
 */
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { onReachable, requestText } from '../api/client.ts'

const ASKED_EVERY_MS = 1_000

let isLost = false
const listeners = new Set<() => void>()

function set(next: boolean): void {
  if (next === isLost) return
  isLost = next
  for (const listener of listeners) listener()
}

onReachable((isReachable) => set(!isReachable))

export function ConnectionBanner() {
  const queries = useQueryClient()
  const isShown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => isLost,
  )
  useEffect(() => {
    if (!isShown) return
    const timer = setInterval(() => void requestText('').catch(() => undefined), ASKED_EVERY_MS)
    return () => {
      clearInterval(timer)
      // Any response means that the server is back.
      void queries.invalidateQueries()
    }
  }, [isShown, queries])
  if (!isShown) return null
  return (
    <div className="notice notice-danger banner" role="alert">
      <p>
        <strong>The server does not respond.</strong> You see the data that was loaded last. The page reconnects by
        itself.
      </p>
    </div>
  )
}
