/** Long JSON texts, joined in time slices so that the event loop is not blocked. */
import { TimeSlice } from '../../runtime/clock.ts'

/** Entries that are joined into one string. A longer string would be flattened in one long step at the end. */
const ENTRIES_A_PIECE = 256

/** The text of a list, from the texts of its entries. */
export function joinedText<T>(
  entries: readonly T[],
  textOf: (entry: T, index: number) => string,
): Promise<string | Buffer> {
  return joined(entries, textOf, ['[', ']'])
}

/** The text of an object, from the texts of its members with their names, and the text around it. */
export function joinedMembers<T>(
  entries: readonly T[],
  textOf: (entry: T) => string,
  { before = '', after = '' } = {},
): Promise<string | Buffer> {
  return joined(entries, textOf, [`${before}{`, `}${after}`])
}

async function joined<T>(
  entries: readonly T[],
  textOf: (entry: T, index: number) => string,
  [open, close]: readonly [string, string],
): Promise<string | Buffer> {
  if (entries.length <= ENTRIES_A_PIECE) return `${open}${entries.map(textOf).join(',')}${close}`
  const slice = new TimeSlice()
  const pieces: Buffer[] = [Buffer.from(open)]
  for (let first = 0; first < entries.length; first += ENTRIES_A_PIECE) {
    const some = entries.slice(first, first + ENTRIES_A_PIECE).map((entry, i) => textOf(entry, first + i))
    pieces.push(Buffer.from(`${first === 0 ? '' : ','}${some.join(',')}`))
    if (slice.isOverNow) await slice.pause()
  }
  pieces.push(Buffer.from(close))
  return Buffer.concat(pieces)
}
