/** The expressions of `$regex`: they match what the engine's own do, and never run away. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { linearPattern } from '../../src/selectors/pattern/linear-pattern.ts'

function matches(source: string, text: string): boolean {
  const pattern = linearPattern(source)
  if (!pattern) throw new Error(`${source} is refused.`)
  return pattern.test(text)
}

const atom = fc.constantFrom(
  'a',
  'b',
  '.',
  '[ab]',
  '[^a]',
  '\\w',
  '\\d',
  '\\b',
  '^',
  '$',
  '(a|b)',
  '(?:ab)',
  '(?=a)',
  '(?!b)',
)
const repeated = fc
  .tuple(
    fc.constantFrom('a', 'b', '.', '[ab]', '(a|b)', '(?:ab|c)', '(a*b?)'),
    fc.constantFrom('*', '+', '?', '{2}', '{1,2}', '*?', '{2,}'),
  )
  .map(([node, quantifier]) => node + quantifier)
const source = fc
  .array(
    fc.array(fc.oneof(atom, repeated), { maxLength: 4 }).map((nodes) => nodes.join('')),
    { minLength: 1, maxLength: 2 },
  )
  .map((branches) => branches.join('|'))
const text = fc
  .array(fc.constantFrom('a', 'b', 'c', '1', ' ', '😀'), { maxLength: 8 })
  .map((characters) => characters.join(''))

describe('an expression', () => {
  it("agrees with the engine's", () => {
    fc.assert(
      fc.property(source, text, (pattern, subject) => {
        expect(matches(pattern, subject)).toBe(new RegExp(pattern, 'u').test(subject))
      }),
      { numRuns: 3000 },
    )
  })

  it.each<[pattern: string, text: string, isMatch: boolean]>([
    ['^ab', 'abc', true],
    ['^ab', 'cab', false],
    ['(?i)^AB', 'abc', true],
    ['(?i)straße', 'STRAßE', true],
    ['a(?i)b', 'aB', true],
    ['(?i:a)b', 'AB', false],
    ['(?s)a.b', 'a\nb', true],
    ['a.b', 'a\nb', false],
    ['(?m)^b$', 'a\nb\nc', true],
    ['b$', 'b\n', true],
    ['b\\z', 'b\n', false],
    ['\\Ab', 'ab', false],
    ['\\Qa.b\\E', 'a.b', true],
    ['[[:alpha:]]+\\d', 'x1', true],
    ['[^[:digit:]]', '12', false],
    ['\\p{Lu}', 'aÉ', true],
    ['\\x41\\x{1F600}', 'A😀', true],
    ['a{,2}', 'a{,2}', true],
    ['(?x) a b # c', 'ab', true],
    ['(?<name>a)b', 'ab', true],
    ['[]a]', ']', true],
    ['[a-]', '-', true],
    ['^(?!test)', 'best', true],
    ['^(?!test)', 'test1', false],
  ])('%s on %j: %s', (pattern, subject, isMatch) => {
    expect(matches(pattern, subject)).toBe(isMatch)
  })

  it.each([
    '(',
    ')',
    '[a',
    'a**b(',
    '*',
    '(a)\\1',
    'a++',
    '(?>a)',
    '(?<=a)b',
    '\\p{Nope}',
    '[b-a]',
    'a{2000}',
    '\\',
    '(?R)',
  ])('is refused: %s', (pattern) => {
    expect(linearPattern(pattern)).toBeUndefined()
  })

  it.each(['(a+)+$', '^(a|a)*$', '(a|aa)+$', '(.*a){20}$', `${'a?'.repeat(30)}${'a'.repeat(30)}$`])(
    'takes linear time: %s',
    (pattern) => {
      const subject = `${'a'.repeat(5000)}b`
      const before = process.cpuUsage()
      expect(matches(pattern, subject)).toBe(false)
      expect(process.cpuUsage(before).user).toBeLessThan(2_000_000)
    },
  )
})
