/** Whole numbers in as few bytes as they need: seven bits a byte, the lowest first, the high bit on all but the last. */

/** What a number below 2^53 takes at most. */
export const NUMBER_BYTES = 8

/** Writes at the position and returns the one after it. */
export function writeVarint(target: Uint8Array, at: number, value: number): number {
  let rest = value
  let position = at
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) target[position++] = (rest % 0x80) + 0x80
  target[position++] = rest
  return position
}

export class VarintReader {
  readonly #source: Uint8Array
  at: number

  constructor(source: Uint8Array, at: number) {
    this.#source = source
    this.at = at
  }

  number(): number {
    let value = 0
    for (let unit = 1; ; unit *= 0x80) {
      const byte = this.#source[this.at++]
      if (byte === undefined) throw new RangeError('A number is cut off.')
      if (byte < 0x80) return value + byte * unit
      value += (byte - 0x80) * unit
    }
  }
}
