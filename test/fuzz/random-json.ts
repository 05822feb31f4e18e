/** JSON of odd shapes and depths, and text that is nearly JSON. */
import { Random } from '../crash/random.ts'
import { ODD_REVISIONS } from '../support/odd-values.ts'

export class FuzzRandom extends Random {
  of<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)]
    if (item === undefined) throw new Error('There is nothing to choose from.')
    return item
  }

  /** So many things, up to a limit. */
  many<T>(limit: number, make: () => T): T[] {
    return Array.from({ length: this.below(limit + 1) }, make)
  }
}

/** Those that the sample has are the most likely. */
export const REVISIONS = ['1-a', '1-b', '1-a', '1-a', '2-c', ...ODD_REVISIONS]

export const IDS = [
  'doc',
  'torn',
  'gone',
  'files',
  'new',
  ...Array.from({ length: 12 }, (_, i) => `n${i}`),
  'a/b',
  'p:1',
  '_local/l',
  '_design/d',
  '_design/',
  '_x',
  '',
  '\u0000',
  '\ud83d\ude00',
  'x'.repeat(3_000),
]

const ODD_TEXTS = [
  '"\\ud800"',
  '"\\u0000"',
  '1e400',
  '-0',
  '0.1e-400',
  '1'.repeat(400),
  '1'.repeat(10_001),
  '01',
  '+1',
  '.5',
  'NaN',
  'Infinity',
  'undefined',
  "'a'",
  '{"a":1,"a":2}',
  '{"__proto__":{"x":1}}',
  '{"":{}}',
  '{"a":1,}',
  '[1,]',
  '[,]',
  '{"a"}',
  '{a:1}',
  '"\t"',
  '"\\x"',
  '"\\u12"',
  '\ufeff{}',
  '{}{}',
  '{} x',
  '/**/{}',
  '',
  ' ',
  '\u0000',
  'nul',
  'truex',
]

const DEPTHS = [10, 200, 999, 1_000, 1_001, 20_000]

/** A value, mostly an ordinary one. */
export function jsonValue(random: FuzzRandom, depth = 2): unknown {
  switch (random.below(depth > 0 ? 10 : 7)) {
    case 0:
      return null
    case 1:
      return random.chance(0.5)
    case 2:
      return random.of([0, -1, 1, 1.5, 2 ** 53, -(2 ** 31), 1e300, 5e-324])
    case 3:
      return random.of(REVISIONS)
    case 4:
      return random.of(IDS)
    case 5:
      return random.of(['', 'a', '\u2028', 'true', '0', '{}', 'x'.repeat(random.below(500))])
    case 6:
      return random.of<unknown>([[], {}, [[]], [null], { '': '' }])
    case 7:
      return random.many(4, () => jsonValue(random, depth - 1))
    default: {
      const names = ['a', 'n', 'type', '_id', '_rev', 'length', 'constructor', '$gt', 'keys']
      return Object.fromEntries(random.many(4, () => [random.of(names), jsonValue(random, depth - 1)]))
    }
  }
}

/** Text of a value, of something deep, or of what is not JSON. */
export function jsonText(random: FuzzRandom, value: () => unknown): string {
  if (random.chance(0.06)) return random.of(ODD_TEXTS)
  if (random.chance(0.02)) return nested(random)
  const text = JSON.stringify(value()) ?? ''
  if (random.chance(0.04)) return text.slice(0, random.below(text.length + 1))
  if (random.chance(0.03)) return text.replace(/(?<=[[:,])(?=["\d{[])/, random.of(ODD_TEXTS))
  return text
}

function nested(random: FuzzRandom): string {
  const depth = random.of(DEPTHS)
  const isArray = random.chance(0.5)
  const open = (isArray ? '[' : '{"a":').repeat(depth)
  const close = random.chance(0.2) ? '' : (isArray ? ']' : '}').repeat(depth)
  return `${random.chance(0.5) ? '{"_id":"deep","x":' : ''}${open}${isArray ? '' : '0'}${close}}`
}
