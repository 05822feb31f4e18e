/**
 * Reads CLDR's root collation table (`allkeys_CLDR.txt`, the format of UTS #10) and checks the shape that sort keys rely on.
 * The table is the only source of weights; what Unicode derives by rule (Han and its like) is left to the layout.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

const cldrCommon = new URL('../../node_modules/cldr/3rdparty/cldr/common/', import.meta.url)

/** One collation element. A primary is a weight of the table or, where Unicode derives it, the ideograph it belongs to. */
export type Element =
  | { kind: 'weighted'; primary: number; tertiary: number }
  | { kind: 'derived'; codePoint: number; tertiary: number }
  | { kind: 'accent'; secondary: number; tertiary: number }

export interface Entry {
  codePoints: number[]
  elements: Element[]
}

export interface RootTable {
  cldrVersion: string
  ucaVersion: string
  entries: Entry[]
}

/** The secondary and tertiary weight of an unaccented small letter, the least of their level. */
const commonSecondary = 0x20
const commonTertiary = 0x02

const firstDerivedPrimary = 0xfb00
const lastDerivedPrimary = 0xfbff

export function readRootTable(): RootTable {
  const text = readCldrFile('uca/allkeys_CLDR.txt')
  return {
    cldrVersion: captured(readCldrFile('dtd/ldml.dtd'), /cldrVersion CDATA #FIXED "([^"]+)"/),
    ucaVersion: captured(text, /^@version (\S+)/m),
    entries: text.split('\n').flatMap(readLine),
  }
}

export function readCldrFile(path: string): string {
  return readFileSync(new URL(path, cldrCommon), 'utf8')
}

function readLine(line: string): Entry[] {
  const match = /^([0-9A-F ]+?)\s*;\s*([^#]+)/.exec(line)
  if (match === null) return []
  const codePoints = match[1]!.split(' ').map((hex) => Number.parseInt(hex, 16))
  return [{ codePoints, elements: readElements(match[2]!) }]
}

function readElements(text: string): Element[] {
  const weights = [...text.matchAll(/\[[.*]([0-9A-F]{4})\.([0-9A-F]{4})\.([0-9A-F]{4})\]/g)].map((match) => ({
    primary: Number.parseInt(match[1]!, 16),
    secondary: Number.parseInt(match[2]!, 16),
    tertiary: Number.parseInt(match[3]!, 16),
  }))
  const elements: Element[] = []
  for (let i = 0; i < weights.length; i++) {
    const { primary, secondary, tertiary } = weights[i]!
    if (primary === 0 && secondary === 0) {
      assert.equal(tertiary, 0, 'an element with a tertiary weight alone would break the dropping of trailing weights')
    } else if (primary === 0) {
      // An accent is above every letter's secondary weight, so that weights can be dropped at the end of a level.
      assert(secondary > commonSecondary && tertiary >= commonTertiary)
      elements.push({ kind: 'accent', secondary, tertiary })
    } else {
      assert(secondary === commonSecondary && tertiary >= commonTertiary)
      if (primary < firstDerivedPrimary || primary > lastDerivedPrimary) {
        elements.push({ kind: 'weighted', primary, tertiary })
      } else {
        elements.push({ kind: 'derived', codePoint: derivedFrom(primary, weights[++i]!.primary), tertiary })
      }
    }
  }
  return elements
}

/** The ideograph whose derived weights (UTS #10, 10.1.3) these are. */
function derivedFrom(first: number, second: number): number {
  assert(first >= 0xfb40 && first < 0xfbc0, 'the table spells out derived weights of Han only')
  return ((first & 0x3f) << 15) | (second & 0x7fff)
}

function captured(text: string, pattern: RegExp): string {
  const match = pattern.exec(text)
  assert(match?.[1], `no match for ${pattern}`)
  return match[1]
}
