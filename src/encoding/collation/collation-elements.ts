/**
 * From code points to collation elements, as UTS #10 says: the longest match in the table, contractions across marks that
 * stand in between, derived weights for the rest. Answers with runs of the table, which are kept for the next time.
 */
import type { CollationTable, ContractionNode } from './collation-table.ts'
import { type DecomposedText, decompose } from './normalization.ts'

/** How many marks a contraction looks across. Stream-safe text has at most 30; without a bound the cost is quadratic. */
const markLookahead = 255

/** In place of a mark that a contraction before it has used. */
const used = -1

/** The run of one code point that is not joined to another. */
export function runOf(table: CollationTable, codePoint: number): number {
  const known = table.run(codePoint)
  if (known !== 0) return known
  const { codePoints } = decompose(table, [codePoint])
  if (codePoints.length === 1 && codePoints[0] === codePoint) {
    return table.addRun(codePoint, table.derivedElement(codePoint))
  }
  const elements: number[] = []
  for (const run of runsOf(table, [codePoint])) {
    elements.push(...table.runs.subarray(run + 1, run + 1 + 2 * table.runs[run]!))
  }
  return table.addRun(codePoint, elements)
}

/** The runs of code points that may change each other's weights. */
export function runsOf(table: CollationTable, codePoints: readonly number[]): number[] {
  const text = decompose(table, codePoints)
  const runs: number[] = []
  for (let at = 0; at < text.codePoints.length; at++) {
    const codePoint = text.codePoints[at]!
    if (codePoint === used) continue
    const contractions = table.contractionsFrom(codePoint)
    runs.push((contractions && contract(text, at, contractions)) || runOf(table, codePoint))
  }
  return runs
}

/** The run of the longest contraction that starts here, 0 if none does. Marks the code points it used. */
function contract(text: DecomposedText, start: number, contractions: ContractionNode): number {
  const { codePoints, classes } = text
  let node = contractions
  let longest = node
  let end = start + 1
  for (let at = end; at < codePoints.length; at++) {
    const codePoint = codePoints[at]!
    if (codePoint === used) continue
    const next = node.next.get(codePoint)
    if (next === undefined) break
    node = next
    if (node.elements === 0) continue
    longest = node
    end = at + 1
  }
  codePoints.fill(used, start + 1, end)

  let classBetween = 0
  const limit = Math.min(codePoints.length, end + markLookahead)
  for (let at = end; at < limit && classes[at] !== 0; at++) {
    const codePoint = codePoints[at]!
    if (codePoint === used) continue
    // A mark is out of reach when one of its own class stands in between.
    const next = classes[at]! > classBetween ? longest.next.get(codePoint) : undefined
    if (next !== undefined && next.elements !== 0) {
      longest = next
      codePoints[at] = used
    } else {
      classBetween = classes[at]!
    }
  }
  return longest.elements
}
