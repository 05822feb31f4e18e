/**
 * Splits lists of documents into portions of a number of revisions. A document with many conflicts is spread over
 * several portions; no portion has a document twice.
 */

interface ListedDocument {
  readonly id: string
  readonly revisions: readonly string[]
}

export function revisionsIn(documents: readonly ListedDocument[]): number {
  return documents.reduce((sum, { revisions }) => sum + revisions.length, 0)
}

/** Portions of up to `most` revisions, in the order of the list. */
export function* portions<T extends ListedDocument>(documents: readonly T[], most: number): Generator<T[]> {
  for (let left = documents; left.length > 0; ) {
    const { portion, rest } = cutPortion(left, most)
    yield portion
    left = rest
  }
}

/** The first portion of a list, and what is left of it. */
export function cutPortion<T extends ListedDocument>(
  documents: readonly T[],
  most: number,
): { readonly portion: T[]; readonly rest: readonly T[] } {
  let count = 0
  for (const [i, document] of documents.entries()) {
    const { revisions } = document
    count += revisions.length
    if (count < most) continue
    const kept = revisions.length - (count - most)
    const portion = [...documents.slice(0, i), { ...document, revisions: revisions.slice(0, kept) }]
    const rest = documents.slice(i + 1)
    return { portion, rest: count === most ? rest : [{ ...document, revisions: revisions.slice(kept) }, ...rest] }
  }
  return { portion: [...documents], rest: [] }
}
