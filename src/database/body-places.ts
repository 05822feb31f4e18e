/**
 * Bodies of many documents, read where they lie: in one scan where they were written one after the other, as bodies of
 * documents that came together were, and one by one where they are scattered.
 */
import type { KeyRange, Page, Snapshot } from '../storage/store.ts'
import { bodyKey, numberOfBodyKey } from './keys.ts'

/** Where a stored body lies. */
export interface BodyPlace {
  readonly block: Buffer
  readonly start: number
  readonly end: number
}

/** In the order of the numbers. They are those of one state, and all there. */
export async function bodyPlaces(snapshot: Snapshot, numbers: readonly number[]): Promise<readonly BodyPlace[]> {
  if (isFalling(numbers)) return (await bodyPlaces(snapshot, numbers.toReversed())).toReversed()
  return (await inOneScan(snapshot, numbers)) ?? oneByOne(snapshot, numbers)
}

function isFalling(numbers: readonly number[]): boolean {
  return numbers.length > 1 && numbers[0]! > numbers.at(-1)!
}

const SCAN_ROWS = 256
const SCAN_BYTES = 256 * 1024

/** Bodies that nobody asked for may lie between the others: so much of them is read. */
const MOST_WASTED_BYTES = 1024 * 1024

/** Undefined where that would read much that nobody asked for. */
async function inOneScan(snapshot: Snapshot, numbers: readonly number[]): Promise<BodyPlace[] | undefined> {
  const [first, last] = [numbers[0], numbers.at(-1)]
  if (first === undefined || last === undefined || last - first >= 2 * numbers.length) return undefined
  const places: BodyPlace[] = []
  let wastedBytes = 0
  let rest: KeyRange | undefined = { from: bodyKey(first), to: bodyKey(last + 1) }
  while (rest) {
    const page: Page = await snapshot.page(rest, { rows: SCAN_ROWS, bytes: SCAN_BYTES })
    const { block, bounds } = page
    for (let row = 0; row < page.length && places.length < numbers.length; row++) {
      const number = numberOfBodyKey(block, bounds[3 * row])
      const wanted = numbers[places.length]!
      if (number === wanted) places.push({ block, start: bounds[3 * row + 1]!, end: bounds[3 * row + 2]! })
      else if (number > wanted) return undefined
      else wastedBytes += bounds[3 * row + 2]! - bounds[3 * row]!
    }
    if (wastedBytes > MOST_WASTED_BYTES) return undefined
    rest = page.next
  }
  return places.length === numbers.length ? places : undefined
}

async function oneByOne(snapshot: Snapshot, numbers: readonly number[]): Promise<BodyPlace[]> {
  const stored = await snapshot.getMany(numbers.map(bodyKey))
  return stored.map((block, i) => {
    if (!block) throw new Error(`Body ${numbers[i]} is not where its document says.`)
    return { block, start: 0, end: block.length }
  })
}
