/**
 * Unicode's canonical decompositions and combining classes, as the JavaScript engine that runs the generator knows them.
 * Asked here once and written into the table, so that a key never depends on the Unicode version of a host.
 */
import assert from 'node:assert/strict'

export interface CanonicalForms {
  /** Full decompositions, Hangul excepted: those are arithmetic. */
  decompositions: Map<number, number[]>
  /** Combining classes by rank: 1 is the least class above zero. Only their order matters. */
  combiningClasses: Map<number, number>
}

/** The least (1) and the greatest (240) combining class: every other mark trades places with at least one of them. */
const leastMark = 0x0334
const greatestMark = 0x0345

export function canonicalForms(): CanonicalForms {
  return { decompositions: decompositions(), combiningClasses: combiningClasses() }
}

export function* scalarValues(): Generator<number> {
  for (let codePoint = 0; codePoint < 0x11_0000; codePoint++) {
    if (codePoint < 0xd800 || codePoint > 0xdfff) yield codePoint
  }
}

export function decomposed(...codePoints: number[]): number[] {
  return [...String.fromCodePoint(...codePoints).normalize('NFD')].map((character) => character.codePointAt(0)!)
}

export function isHangulSyllable(codePoint: number): boolean {
  return codePoint >= 0xac00 && codePoint <= 0xd7a3
}

function decompositions(): Map<number, number[]> {
  const found = new Map<number, number[]>()
  for (const codePoint of scalarValues()) {
    if (isHangulSyllable(codePoint)) continue
    const form = decomposed(codePoint)
    if (form.length > 1 || form[0] !== codePoint) found.set(codePoint, form)
  }
  return found
}

/** Canonical ordering shows the classes: two marks trade places exactly when the first has the greater class. */
function combiningClasses(): Map<number, number> {
  const marks = [...scalarValues()].filter(isCombining).sort(byClass)
  const classes = new Map<number, number>()
  let rank = 0
  for (const [i, mark] of marks.entries()) {
    if (i === 0 || byClass(marks[i - 1]!, mark) < 0) rank++
    classes.set(mark, rank)
  }
  assert(rank < 64, 'the table keeps a class in six bits')
  return classes
}

function isCombining(codePoint: number): boolean {
  if (!/^\p{M}$/u.test(String.fromCodePoint(codePoint)) || decomposed(codePoint)[0] !== codePoint) return false
  return codePoint === leastMark || tradesPlaces(codePoint, leastMark) || tradesPlaces(greatestMark, codePoint)
}

function byClass(left: number, right: number): number {
  return Number(tradesPlaces(left, right)) - Number(tradesPlaces(right, left))
}

function tradesPlaces(first: number, second: number): boolean {
  return first !== second && decomposed(first, second)[0] === second
}
