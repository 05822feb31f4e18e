/**
 * Reads many bodies at once. Those that were written one after the other are read in one scan, scattered ones with one
 * `getMany`.
 */
import type { KeyRange, Page, Snapshot } from '../../storage/store.ts'
import { bodyKey, numberOfBodyKey } from './keys.ts'
import { decodeBody, sizeOfBody } from './stored-body.ts'

/** The sizes of bodies. */
export async function bodySizes(snapshot: Snapshot, bodies: readonly number[]): Promise<number[]> {
  const stored = await snapshot.getMany(bodies.map(bodyKey))
  return stored.map((bytes, i) => {
    if (!bytes) throw new Error(`Body ${bodies[i]} is missing.`)
    return sizeOfBody(decodeBody(bytes))
  })
}

/** Where a stored body is in a block. */
export interface BodyPlace {
  readonly block: Buffer
  readonly start: number
  readonly end: number
}

/** In the order of the numbers. All of them must exist in the snapshot. */
export async function bodyPlaces(snapshot: Snapshot, numbers: readonly number[]): Promise<readonly BodyPlace[]> {
  if (numbers.length < SCANNED_BODIES) return oneByOne(snapshot, numbers)
  if (isFalling(numbers)) return (await bodyPlaces(snapshot, numbers.toReversed())).toReversed()
  return (await inOneScan(snapshot, numbers)) ?? oneByOne(snapshot, numbers)
}

/**
 * The same for the first of the numbers, as many as fit into the limit on bytes, but at least one. Where not all fit, there are
 * fewer places than numbers.
 */
export async function bodyPlacesWithin(
  snapshot: Snapshot,
  numbers: readonly number[],
  bytes: number,
): Promise<readonly BodyPlace[]> {
  if (numbers.length === 1) return oneByOne(snapshot, numbers)
  return (await inOneScan(snapshot, numbers, bytes)) ?? oneByOneWithin(snapshot, numbers, bytes)
}

function isFalling(numbers: readonly number[]): boolean {
  return numbers.length > 1 && numbers[0]! > numbers.at(-1)!
}

/** Fewer bodies are looked up one by one: a scan takes longer to begin. */
const SCANNED_BODIES = 8
const SCAN_ROWS = 256
const SCAN_BYTES = 256 * 1024

/** How many bytes a scan may read of bodies that nobody asked for. */
const MOST_WASTED_BYTES = 1024 * 1024

/** Undefined where a scan would read too much that nobody asked for. */
async function inOneScan(
  snapshot: Snapshot,
  numbers: readonly number[],
  mostBytes = Number.POSITIVE_INFINITY,
): Promise<BodyPlace[] | undefined> {
  const [first, last] = [numbers[0], numbers.at(-1)]
  if (first === undefined || last === undefined || last - first >= 2 * numbers.length) return undefined
  const places: BodyPlace[] = []
  let wastedBytes = 0
  let bytes = 0
  const limits = { rows: SCAN_ROWS, bytes: SCAN_BYTES, expectsMany: numbers.length >= SCANNED_BODIES }
  let rest: KeyRange | undefined = { from: bodyKey(first), to: bodyKey(last + 1) }
  while (rest) {
    const page: Page = await snapshot.page(rest, limits)
    const { block, bounds } = page
    for (let row = 0; row < page.length && places.length < numbers.length; row++) {
      const number = numberOfBodyKey(block, bounds[3 * row])
      const wanted = numbers[places.length]!
      if (number === wanted) {
        places.push({ block, start: bounds[3 * row + 1]!, end: bounds[3 * row + 2]! })
        bytes += bounds[3 * row + 2]! - bounds[3 * row + 1]!
      } else if (number > wanted) return undefined
      else wastedBytes += bounds[3 * row + 2]! - bounds[3 * row]!
    }
    if (wastedBytes > MOST_WASTED_BYTES) return undefined
    if (bytes >= mostBytes) return places
    rest = page.next
  }
  return places.length === numbers.length ? places : undefined
}

async function oneByOne(snapshot: Snapshot, numbers: readonly number[]): Promise<BodyPlace[]> {
  const stored = await snapshot.getMany(numbers.map(bodyKey))
  return stored.map((block, i) => {
    if (!block) throw new BodyMissingError(numbers[i]!)
    return { block, start: 0, end: block.length }
  })
}

/** A body whose number is from an earlier state is gone. */
export class BodyMissingError extends Error {
  override readonly name = 'BodyMissingError'

  constructor(number: number) {
    super(`Body ${number} is missing.`)
  }
}

/** Bodies in the first read, before their sizes are known. */
const FIRST_READ = 16

async function oneByOneWithin(snapshot: Snapshot, numbers: readonly number[], mostBytes: number): Promise<BodyPlace[]> {
  const places: BodyPlace[] = []
  let bytes = 0
  for (let count = FIRST_READ; places.length < numbers.length && bytes < mostBytes; ) {
    const read = await oneByOne(snapshot, numbers.slice(places.length, places.length + count))
    for (const place of read) bytes += place.end - place.start
    places.push(...read)
    const averageBytes = Math.max(1, bytes / places.length)
    count = Math.max(1, Math.min(SCAN_ROWS, Math.floor((mostBytes - bytes) / averageBytes)))
  }
  return places
}
