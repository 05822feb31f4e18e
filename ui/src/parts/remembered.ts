/**
 * Choices of the user, in the browser's local storage and shared by all parts of the page. Without storage they last as
 * long as the page.
 */
import { useCallback, useSyncExternalStore } from 'react'

const values = new Map<string, unknown>()
const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function useRemembered<T>(name: string, usual: T): [value: T, set: (value: T) => void] {
  const value = useSyncExternalStore(subscribe, () => stored(name))
  const set = useCallback(
    (next: T) => {
      values.set(name, next)
      write(name, next)
      for (const listener of listeners) listener()
    },
    [name],
  )
  // What this page or an earlier one wrote under the name.
  return [value === undefined ? usual : (value as T), set]
}

function stored(name: string): unknown {
  if (!values.has(name)) values.set(name, read(name))
  return values.get(name)
}

function read(name: string): unknown {
  try {
    const text = localStorage.getItem(`settle.${name}`)
    return text === null ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

function write(name: string, value: unknown): void {
  try {
    localStorage.setItem(`settle.${name}`, JSON.stringify(value))
  } catch {
    // Storage is full or disabled: the choice lasts as long as the page.
  }
}
