/** All rows of a range, a page at a time. */
import { afterPrefix } from '../database/layout/keys.ts'
import type { KeyRange, Page, PageLimits, Snapshot } from '../storage/store.ts'

export async function* pagesOf(snapshot: Snapshot, range: KeyRange, limits?: PageLimits): AsyncGenerator<Page> {
  for (let rest: KeyRange | undefined = range; rest; ) {
    const page: Page = await snapshot.page(rest, limits)
    yield page
    rest = page.next
  }
}

/** All rows whose keys begin with one byte. */
export function rowsOf(prefix: Buffer): KeyRange {
  return { from: prefix, to: afterPrefix(prefix) }
}
