import { readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { generateCollation } from '../../scripts/generate-collation.ts'
import {
  asciiPrimaries,
  capitalTertiary,
  cldrVersion,
  compressedTable,
  ucaVersion,
} from '../../src/encoding/collation/collation-data.ts'
import { CollationEncoder, collationKey } from '../../src/encoding/collation/collation-key.ts'
import { assigned, CollationTexts } from './collation-texts.ts'

const collator = new Intl.Collator('en', { sensitivity: 'variant' })
const hasSameUnicode = ucaVersion.startsWith(process.versions.unicode ?? '')

function inCodePoints(text: string): string {
  return [...text].map((character) => character.codePointAt(0)!.toString(16)).join(' ')
}

describe('the root collation', () => {
  it("has the order of every line of Unicode's conformance file", () => {
    const file = new URL(
      '../../node_modules/cldr/3rdparty/cldr/common/uca/CollationTest_CLDR_NON_IGNORABLE_SHORT.txt',
      import.meta.url,
    )
    const lines = readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => /^[0-9A-F]/.test(line))
    expect(lines.length).toBeGreaterThan(200_000)
    const encoder = new CollationEncoder()
    let last: Buffer = Buffer.alloc(0)
    const outOfOrder = lines.filter((line) => {
      const units = line
        .trim()
        .split(' ')
        .map((hex) => Number.parseInt(hex, 16))
      const key = encoder.encode(String.fromCodePoint(...units))
      const isOutOfOrder = Buffer.compare(last, key) > 0
      last = key
      return isOutOfOrder
    })
    expect(outOfOrder).toEqual([])
  })

  // Both sides get decomposed text: ICU, normalizing as it goes, misses some canonical equivalents (marks beyond U+FFFF after
  // Tibetan and Arabic letters, Kirat Rai vowels), which the next test asks of us alone.
  it.runIf(hasSameUnicode)('agrees with ICU on texts of all scripts', () => {
    const texts = new CollationTexts(7)
    const differences: string[] = []
    for (let i = 0; i < 250_000; i++) {
      const left = texts.text().normalize('NFD')
      const right = texts.variant(left).normalize('NFD')
      const ours = Buffer.compare(collationKey(left), collationKey(right))
      if (ours !== Math.sign(collator.compare(left, right)))
        differences.push(`${inCodePoints(left)} | ${inCodePoints(right)}`)
    }
    expect(differences).toEqual([])
  })

  it.runIf(hasSameUnicode)('agrees with ICU on every assigned character', () => {
    const characters = assigned.map((codePoint) => String.fromCodePoint(codePoint))
    const keyed = characters.map((character) => ({ character, key: collationKey(character) }))
    keyed.sort((left, right) => Buffer.compare(left.key, right.key))
    const differences = keyed.filter(({ character, key }, i) => {
      const previous = keyed[i - 1]
      if (previous === undefined) return false
      return Math.sign(collator.compare(previous.character, character)) !== Buffer.compare(previous.key, key)
    })
    expect(differences.map(({ character }) => inCodePoints(character))).toEqual([])
  })

  it.runIf(hasSameUnicode)('gives canonical equivalents one key', () => {
    const texts = new CollationTexts(11)
    for (let i = 0; i < 50_000; i++) {
      const text = texts.text()
      const key = collationKey(text)
      for (const form of ['NFC', 'NFD']) {
        if (!key.equals(collationKey(text.normalize(form)))) expect.fail(`${inCodePoints(text)} differs in ${form}`)
      }
    }
  })
})

describe('the committed table', () => {
  it.runIf(hasSameUnicode)('is what the generator makes of CLDR', () => {
    const generated = generateCollation()
    expect([generated.cldrVersion, generated.ucaVersion]).toEqual([cldrVersion, ucaVersion])
    expect(Buffer.from(generated.asciiPrimaries).toString('base64')).toBe(asciiPrimaries)
    expect(generated.capitalTertiary).toBe(capitalTertiary)
    expect(brotliDecompressSync(Buffer.from(compressedTable, 'base64')).equals(generated.table)).toBe(true)
  })
})
