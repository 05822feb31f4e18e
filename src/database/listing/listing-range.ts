/**
 * Where a listing begins, and where it continues after a run of tombstones. Tombstones weigh nothing in the rank tree, so a
 * run of them costs one lookup there, however long it is.
 */
import type { RankTree } from '../../storage/rank-tree/rank-tree.ts'
import { ORDERED_KEY_BYTES } from '../../storage/rows/stored-key.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import type { LastingView } from '../database-view.ts'
import { DOCUMENT_PREFIX } from '../layout/keys.ts'

/** Finds the next live document of a listing. */
export class LiveDocuments {
  readonly #ranks: RankTree
  readonly #view: LastingView

  constructor(ranks: RankTree, view: LastingView) {
    this.#ranks = ranks
    this.#view = view
  }

  /**
   * What is left of a range after a page that had only tombstones, from the next live document on; undefined when there
   * is none. Long keys do not lie in the order of their bytes: there the range is left as it is.
   */
  async after(page: Page): Promise<KeyRange | undefined> {
    const { next } = page
    if (!next || page.length === 0) return next
    const last = page.key(page.length - 1)
    if (last.length >= ORDERED_KEY_BYTES) return next
    using _pin = this.#view.pin()
    const found = next.reverse ? await this.#before(last) : await this.#behind(last)
    if (!found) return undefined
    const key = Buffer.concat([DOCUMENT_PREFIX, found])
    if (key.length >= ORDERED_KEY_BYTES) return next
    const { from, to } = next
    if (next.reverse) return from && Buffer.compare(key, from) < 0 ? undefined : { from, to: after(key), reverse: true }
    return to && Buffer.compare(key, to) >= 0 ? undefined : { from: key, to }
  }

  async #behind(key: Buffer): Promise<Buffer | undefined> {
    const { snapshot } = this.#view
    return this.#ranks.select(snapshot, await this.#ranks.rank(snapshot, after(idBytes(key))))
  }

  async #before(key: Buffer): Promise<Buffer | undefined> {
    const { snapshot } = this.#view
    const rank = await this.#ranks.rank(snapshot, idBytes(key))
    return rank === 0 ? undefined : this.#ranks.select(snapshot, rank - 1)
  }
}

function idBytes(key: Buffer): Buffer {
  return key.subarray(DOCUMENT_PREFIX.length)
}

/** The ids that a listing is of. */
export interface ListedIds {
  /** Where to begin and to end, in the direction of the listing. */
  readonly start?: string | undefined
  readonly end?: string | undefined
  readonly inclusiveEnd: boolean
  readonly descending: boolean
}

/** Bounds of ids as bytes: from inclusive, to exclusive. */
export interface IdBounds {
  readonly from?: Buffer
  readonly to?: Buffer
}

export function idBounds({ start, end, inclusiveEnd, descending }: ListedIds): IdBounds {
  const low = descending ? end : start
  const high = descending ? start : end
  const isLowIncluded = !descending || inclusiveEnd
  const isHighIncluded = descending || inclusiveEnd
  return {
    ...(low !== undefined && { from: isLowIncluded ? Buffer.from(low) : after(Buffer.from(low)) }),
    ...(high !== undefined && { to: isHighIncluded ? after(Buffer.from(high)) : Buffer.from(high) }),
  }
}

/** The least key above this one. */
export function after(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)])
}
