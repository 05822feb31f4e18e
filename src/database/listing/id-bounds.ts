/** Which ids a listing is of: where it begins and ends in its direction, as bytes in the order of the store. */

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
