/**
 * Whether the server answers. What was read stays on the screen while it does not. It is asked every second until it is
 * back; then everything in sight is read again.
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
      // Whichever request it was that was answered.
      void queries.invalidateQueries()
    }
  }, [isShown, queries])
  if (!isShown) return null
  return (
    <div className="notice notice-danger banner" role="alert">
      <p>
        <strong>The server does not answer.</strong> What you see is what was read last; it is asked again by itself.
      </p>
    </div>
  )
}
