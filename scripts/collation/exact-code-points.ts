/**
 * Which code points a sort key gives away: of all texts made of the others only, no two share a key.
 * Each stands for one letter with its accents and is the only one that does, so a key reads back letter by letter.
 */
import { isHangulSyllable } from './canonical-forms.ts'
import type { Entry } from './root-table.ts'

/** The code points that may share their weights with another text, in ascending order. */
export function inexactCodePoints(entries: Entry[]): number[] {
  const inexact: number[] = []
  const taken = new Set<string>()
  const singles = entries.filter(({ codePoints }) => codePoints.length === 1)
  for (const { codePoints, elements } of singles.sort((left, right) => left.codePoints[0]! - right.codePoints[0]!)) {
    const codePoint = codePoints[0]!
    const weights = JSON.stringify(elements)
    const [letter, ...accents] = elements
    const isOneLetter =
      letter !== undefined && letter.kind !== 'accent' && accents.every(({ kind }) => kind === 'accent')
    if (isOneLetter && isComposed(codePoint) && !isConjoiningJamo(codePoint) && !taken.has(weights)) taken.add(weights)
    else if (!isHangulSyllable(codePoint)) inexact.push(codePoint)
  }
  return inexact
}

function isComposed(codePoint: number): boolean {
  const character = String.fromCodePoint(codePoint)
  return character.normalize('NFC') === character
}

/** A Hangul syllable has the weights of its jamo; the syllable is the exact one of the two spellings. */
function isConjoiningJamo(codePoint: number): boolean {
  return (
    (codePoint >= 0x1100 && codePoint <= 0x11ff) ||
    (codePoint >= 0xa960 && codePoint <= 0xa97f) ||
    (codePoint >= 0xd7b0 && codePoint <= 0xd7ff)
  )
}
