/** Texts for the tests of collation: every assigned character, with those that interact drawn often. Same seed, same texts. */

export class CollationTexts {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  /** A number from 0 to below `limit`. */
  number(limit: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((this.#state / 2 ** 32) * limit)
  }

  text(): string {
    const codePoints = Array.from({ length: this.number(7) }, () => {
      const pool = pools[this.number(pools.length)]!
      return pool[this.number(pool.length)]!
    })
    return String.fromCodePoint(...codePoints)
  }

  /** A text that differs little from the given one, so that the later levels decide. */
  variant(text: string): string {
    const characters = [...text]
    const at = this.number(characters.length + 1)
    const change = this.number(4)
    if (change === 0) return this.text()
    if (change === 1) characters.splice(at, 0, this.text())
    if (change === 2) characters.splice(at, 1, [...this.text()][0] ?? '')
    if (change === 3) characters.splice(at, 2, ...characters.slice(at, at + 2).reverse())
    return characters.join('')
  }
}

export const assigned = Array.from({ length: 0x11_0000 }, (_, codePoint) => codePoint).filter((codePoint) => {
  const isSurrogate = codePoint >= 0xd800 && codePoint <= 0xdfff
  return !isSurrogate && /^[\p{Assigned}--\p{Private_Use}]$/v.test(String.fromCodePoint(codePoint))
})

const marks = assigned.filter((codePoint) => /^\p{M}$/u.test(String.fromCodePoint(codePoint)))
const latin = assigned.filter((codePoint) => codePoint < 0x250)
/** Those that contract, decompose or stand in each other's way: Tibetan, Thai, Lao, Arabic, Sinhala, Hangul, Kirat Rai… */
const interacting = [
  ...[
    0x6c, 0x4c, 0xb7, 0x387, 0x301, 0x306, 0x334, 0x345, 0x5b0, 0x418, 0x627, 0x648, 0x653, 0x654, 0xdca, 0xdcf, 0xdd9,
  ],
  ...[0xe01, 0xe32, 0xe40, 0xe4d, 0xe81, 0xec0, 0xf71, 0xf72, 0xf73, 0xf74, 0xf75, 0xf76, 0xf77, 0xf78, 0xf80, 0xf81],
  ...[0xfb2, 0xfb3, 0x1100, 0x1161, 0x11a8, 0x1b05, 0x1b35, 0xac00, 0xac01, 0x113c2, 0x113c9, 0x16d67, 0x16d68],
]

const pools = [assigned, marks, latin, interacting, interacting, marks]
