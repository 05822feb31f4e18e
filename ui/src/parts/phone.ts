/** Whether the window has the width of a phone; the style sheets have the same limit. */
import { useSyncExternalStore } from 'react'

const query = matchMedia('(max-width: 760px)')

function subscribe(listener: () => void): () => void {
  query.addEventListener('change', listener)
  return () => query.removeEventListener('change', listener)
}

export function useIsPhone(): boolean {
  return useSyncExternalStore(subscribe, () => query.matches)
}
