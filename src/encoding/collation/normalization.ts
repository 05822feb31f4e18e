/**
 * Canonical decomposition (NFD) of code points over the collation table's own data, so that canonically equivalent texts
 * are one sequence of code points whatever Unicode version the host has.
 */
import type { CollationTable } from './collation-table.ts'

/** The decomposed code points and, at the same places, their combining classes. */
export interface DecomposedText {
  codePoints: number[]
  classes: number[]
}

export function decompose(table: CollationTable, codePoints: readonly number[]): DecomposedText {
  const text: DecomposedText = { codePoints: [], classes: [] }
  for (const codePoint of codePoints) {
    const form = table.decomposition(codePoint) ?? hangulJamo(codePoint)
    if (form === undefined) append(table, text, codePoint)
    else for (const part of form) append(table, text, part)
  }
  orderMarks(text)
  return text
}

function append(table: CollationTable, text: DecomposedText, codePoint: number): void {
  text.codePoints.push(codePoint)
  text.classes.push(table.combiningClass(codePoint))
}

const firstSyllable = 0xac00
const syllableCount = 11172
const vowelCount = 21
const trailingCount = 28

function hangulJamo(codePoint: number): number[] | undefined {
  const index = codePoint - firstSyllable
  if (index < 0 || index >= syllableCount) return undefined
  const leading = 0x1100 + Math.floor(index / (vowelCount * trailingCount))
  const vowel = 0x1161 + (Math.floor(index / trailingCount) % vowelCount)
  const trailing = index % trailingCount
  return trailing === 0 ? [leading, vowel] : [leading, vowel, 0x11a7 + trailing]
}

/** Sorts each sequence of marks by combining class; equal classes keep their order. */
function orderMarks(text: DecomposedText): void {
  const { classes } = text
  for (let end = 1; end < classes.length; end++) {
    if (classes[end] === 0 || classes[end - 1]! <= classes[end]!) continue
    const start = classes.lastIndexOf(0, end) + 1
    const next = classes.indexOf(0, end)
    end = next === -1 ? classes.length : next
    sortMarks(text, start, end)
  }
}

function sortMarks({ codePoints, classes }: DecomposedText, start: number, end: number): void {
  const marks = []
  for (let i = start; i < end; i++) marks.push({ codePoint: codePoints[i]!, rank: classes[i]! })
  marks.sort((left, right) => left.rank - right.rank)
  for (const [i, mark] of marks.entries()) {
    codePoints[start + i] = mark.codePoint
    classes[start + i] = mark.rank
  }
}
