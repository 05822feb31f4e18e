/**
 * The order of the scripts that the collation table does not list: Tangut, Nushu, Khitan (UTS #10, 10.1.3) and Han.
 * Han is in radical-stroke order over all its blocks, from the radical lines of CLDR's `FractionalUCA.txt`: that is what
 * ICU's root collation does as it is built by default, and with it the databases whose order views must have.
 */
import assert from 'node:assert/strict'
import { scalarValues } from './canonical-forms.ts'
import { readCldrFile } from './root-table.ts'

export interface Range {
  first: number
  last: number
}

/** In ascending order of weight. */
export function derivedOrder(): Range[] {
  const tangut = rangesMatching(/^(?=\p{Lo})\p{Script=Tangut}$/u)
  return [
    ...tangut.flatMap((range) => rangesOf(codePointsIn(range).filter((codePoint) => !isTangutComponent(codePoint)))),
    ...tangut.flatMap((range) => rangesOf(codePointsIn(range).filter(isTangutComponent))),
    ...rangesMatching(/^(?=\p{Lo})\p{Script=Nushu}$/u),
    ...rangesMatching(/^(?=\p{Lo})\p{Script=Khitan_Small_Script}$/u),
    ...hanByRadical(),
  ]
}

export function rangesOf(ascending: number[]): Range[] {
  const ranges: Range[] = []
  for (const value of ascending) {
    const previous = ranges.at(-1)
    if (previous?.last === value - 1) previous.last = value
    else ranges.push({ first: value, last: value })
  }
  return ranges
}

/** The components come after all ideographs, those of the supplement included. */
function isTangutComponent(codePoint: number): boolean {
  return (codePoint >= 0x1_8800 && codePoint <= 0x1_8aff) || (codePoint >= 0x1_8d80 && codePoint <= 0x1_8dff)
}

/** `[radical 1=⼀一:一𪛙丁-丆…]`: single ideographs and ranges of them. */
function hanByRadical(): Range[] {
  const ranges: Range[] = []
  for (const [, members] of readCldrFile('uca/FractionalUCA.txt').matchAll(/^\[radical \d+=[^:]*:(.*)\]$/gm)) {
    for (const [, first, last] of members!.matchAll(/(.)(?:-(.))?/gu)) {
      ranges.push({ first: first!.codePointAt(0)!, last: (last ?? first!).codePointAt(0)! })
    }
  }
  const listed = ranges.flatMap(codePointsIn).sort((left, right) => left - right)
  const ideographs = rangesMatching(/^\p{Unified_Ideograph}$/u)
  assert.deepEqual(rangesOf(listed), ideographs, 'the radical lines hold every ideograph once')
  return ranges
}

function rangesMatching(pattern: RegExp): Range[] {
  return rangesOf([...scalarValues()].filter((codePoint) => pattern.test(String.fromCodePoint(codePoint))))
}

function codePointsIn({ first, last }: Range): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i)
}
