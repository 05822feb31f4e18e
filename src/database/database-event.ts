/** What happens to databases as a whole, for those who follow all of them. */

export type DatabaseEvent =
  | { readonly type: 'created' | 'updated' | 'deleted' | 'compacted'; readonly db: string }
  /** Comes after the `updated` of the same commit. */
  | { readonly type: 'ddoc_updated'; readonly db: string; readonly id: string }

/** Called at once, in the order in which things happen; must not throw. */
export type DatabaseEventListener = (event: DatabaseEvent) => void

/** A commit of these documents. */
export function updateEvents(db: string, ids: readonly string[]): DatabaseEvent[] {
  const designs = ids.filter((id) => id.startsWith('_design/'))
  return [{ type: 'updated', db }, ...designs.map((id) => ({ type: 'ddoc_updated', db, id }) as const)]
}
