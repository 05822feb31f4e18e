/** The sets of characters that regular expressions have names for. */
import type { CharacterSet } from './pattern-syntax.ts'

export const isDigit: CharacterSet = (c) => c >= 0x30 && c <= 0x39
export const isWordCharacter: CharacterSet = (c) =>
  (c >= 0x61 && c <= 0x7a) || (c >= 0x41 && c <= 0x5a) || isDigit(c) || c === 0x5f
const isSpace: CharacterSet = (c) => (c >= 0x09 && c <= 0x0d) || c === 0x20
const isHorizontalSpace: CharacterSet = (c) => c === 0x09 || c === 0x20 || c === 0xa0
const isVerticalSpace: CharacterSet = (c) => (c >= 0x0a && c <= 0x0d) || c === 0x85 || c === 0x2028 || c === 0x2029
const isLower: CharacterSet = (c) => c >= 0x61 && c <= 0x7a
const isUpper: CharacterSet = (c) => c >= 0x41 && c <= 0x5a
const isLetter: CharacterSet = (c) => isLower(c) || isUpper(c)
const isGraphic: CharacterSet = (c) => c > 0x20 && c < 0x7f

/** `\d` and its like, by the letter. */
export const ESCAPED_SETS: ReadonlyMap<string, CharacterSet> = new Map([
  ['d', isDigit],
  ['w', isWordCharacter],
  ['s', isSpace],
  ['h', isHorizontalSpace],
  ['v', isVerticalSpace],
  ['R', isVerticalSpace],
  ['D', inverse(isDigit)],
  ['W', inverse(isWordCharacter)],
  ['S', inverse(isSpace)],
  ['H', inverse(isHorizontalSpace)],
  ['V', inverse(isVerticalSpace)],
  ['N', (c) => c !== 0x0a],
])

/** `[:alpha:]` and its like. */
export const POSIX_SETS: ReadonlyMap<string, CharacterSet> = new Map([
  ['alpha', isLetter],
  ['digit', isDigit],
  ['alnum', (c) => isLetter(c) || isDigit(c)],
  ['upper', isUpper],
  ['lower', isLower],
  ['space', isSpace],
  ['blank', (c) => c === 0x20 || c === 0x09],
  ['punct', (c) => isGraphic(c) && !isLetter(c) && !isDigit(c)],
  ['cntrl', (c) => c < 0x20 || c === 0x7f],
  ['graph', isGraphic],
  ['print', (c) => c === 0x20 || isGraphic(c)],
  ['xdigit', (c) => isDigit(c) || (c >= 0x61 && c <= 0x66) || (c >= 0x41 && c <= 0x46)],
  ['word', isWordCharacter],
  ['ascii', (c) => c < 0x80],
])

export function inverse(set: CharacterSet): CharacterSet {
  return (codePoint) => !set(codePoint)
}

/** A property of Unicode, such as `L` or `Greek`; undefined where there is none of that name. */
export function unicodeProperty(name: string): CharacterSet | undefined {
  if (!/^[A-Za-z_=]{1,60}$/.test(name)) return undefined
  const expression = propertyExpression(name) ?? propertyExpression(`Script=${name}`)
  return expression && ((codePoint) => expression.test(String.fromCodePoint(codePoint)))
}

function propertyExpression(name: string): RegExp | undefined {
  try {
    return new RegExp(`^\\p{${name}}$`, 'u')
  } catch {
    return undefined
  }
}

/** The same set whatever the case of a letter. */
export function withoutCase(set: CharacterSet): CharacterSet {
  return (codePoint) => set(codePoint) || otherCases(codePoint).some(set)
}

function otherCases(codePoint: number): number[] {
  const text = String.fromCodePoint(codePoint)
  return [text.toLowerCase(), text.toUpperCase()].flatMap((other) => {
    const [first] = other
    return first === other ? [other.codePointAt(0)!] : []
  })
}
