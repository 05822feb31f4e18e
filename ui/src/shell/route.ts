/**
 * The address of a screen: the part behind `#`, so that the server serves one page for all of them. Parts of the path
 * are escaped one by one, and the state of a screen is in the query: `#/db/recipes/documents/fish?view=json`.
 */
import { useMemo, useSyncExternalStore } from 'react'

export interface Route {
  readonly segments: readonly string[]
  readonly query: URLSearchParams
}

type Query = Readonly<Record<string, string | undefined>>

export function link(segments: readonly string[], query: Query = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []))
  const text = new URLSearchParams(given).toString()
  return `#/${segments.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`
}

export function go(target: string, { replace = false } = {}): void {
  if (location.hash === target) return
  if (!replace) {
    location.hash = target
    return
  }
  history.replaceState(history.state, '', target)
  dispatchEvent(new HashChangeEvent('hashchange'))
}

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = splitOnce(hash.replace(/^#\/?/, ''), '?')
  const segments = path.split('/').filter((segment) => segment !== '')
  return { segments: segments.map(decoded), query: new URLSearchParams(query) }
}

function splitOnce(text: string, mark: string): string[] {
  const at = text.indexOf(mark)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

function subscribe(listener: () => void): () => void {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(subscribe, () => location.hash)
  return useMemo(() => parseRoute(hash), [hash])
}

/** One value of the query of this address, and how to set it. Setting keeps the others. */
export function useQueryValue(name: string, usual = ''): [value: string, set: (value: string) => void] {
  const { query } = useRoute()
  return [query.get(name) ?? usual, (value) => setQuery({ [name]: value === usual ? '' : value })]
}

/** Empty values are taken out. */
export function setQuery(changes: Query, { replace = true } = {}): void {
  const { segments, query } = parseRoute(location.hash)
  const values = { ...Object.fromEntries(query), ...changes }
  go(link(segments, values), { replace })
}
