/**
 * Reads the regular expressions that `$regex` takes: the syntax of PCRE, without what cannot be matched in linear time
 * (references to groups, atomic groups, possessive quantifiers, lookbehind, recursion).
 */
import { ESCAPED_SETS, inverse, POSIX_SETS, unicodeProperty, withoutCase } from './character-sets.ts'
import type { Assertion, CharacterSet, PatternNode } from './pattern-syntax.ts'

/** The expression is malformed, or has what is not supported. */
export class PatternError extends Error {}

export function parsePattern(source: string): PatternNode {
  const parser = new PatternParser(source)
  return parser.parse()
}

interface Flags {
  readonly ignoreCase: boolean
  readonly multiline: boolean
  readonly dotAll: boolean
  readonly extended: boolean
}

const NO_FLAGS: Flags = { ignoreCase: false, multiline: false, dotAll: false, extended: false }
const FLAG_NAMES: ReadonlyMap<string, keyof Flags> = new Map([
  ['i', 'ignoreCase'],
  ['m', 'multiline'],
  ['s', 'dotAll'],
  ['x', 'extended'],
])
const DEEPEST_NESTING = 100
const MOST_REPEATS = 1000
const MOST_DIGITS = 6
const NEWLINE = 0x0a

const CONTROL_CHARACTERS: ReadonlyMap<string, number> = new Map([
  ['t', 0x09],
  ['n', 0x0a],
  ['r', 0x0d],
  ['f', 0x0c],
  ['e', 0x1b],
  ['a', 0x07],
])
const ASSERTIONS: ReadonlyMap<string, Assertion> = new Map([
  ['A', 'text start'],
  ['z', 'text end'],
  ['Z', 'last line end'],
  ['b', 'word edge'],
  ['B', 'no word edge'],
])

class PatternParser {
  readonly #characters: readonly string[]
  #at = 0
  #depth = 0

  constructor(source: string) {
    this.#characters = Array.from(source)
  }

  parse(): PatternNode {
    const node = this.#choice(NO_FLAGS)
    if (this.#at < this.#characters.length) throw new PatternError('A parenthesis is closed that was not opened.')
    return node
  }

  get #next(): string | undefined {
    return this.#characters[this.#at]
  }

  #take(): string {
    const character = this.#characters[this.#at++]
    if (character === undefined) throw new PatternError('The expression ends too early.')
    return character
  }

  #takeIf(text: string): boolean {
    const characters = Array.from(text)
    if (characters.some((character, i) => this.#characters[this.#at + i] !== character)) return false
    this.#at += characters.length
    return true
  }

  /** Up to the end of the group. Flags that are set in the middle count up to there. */
  #choice(outer: Flags): PatternNode {
    let flags = outer
    const branches: PatternNode[] = []
    let branch: PatternNode[] = []
    while (this.#next !== undefined && this.#next !== ')') {
      if (this.#takeIf('|')) {
        branches.push({ kind: 'sequence', nodes: branch })
        branch = []
        continue
      }
      const changed = this.#flagChange(flags)
      if (changed) {
        flags = changed
        continue
      }
      if (flags.extended && this.#passOverBlanks()) continue
      branch.push(this.#repeated(this.#atom(flags)))
    }
    branches.push({ kind: 'sequence', nodes: branch })
    return branches.length === 1 ? branches[0]! : { kind: 'choice', nodes: branches }
  }

  /** `(?i)` and its like; undefined where something else follows. */
  #flagChange(flags: Flags): Flags | undefined {
    if (this.#next !== '(' || this.#characters[this.#at + 1] !== '?') return undefined
    const start = this.#at
    this.#at += 2
    const changed = this.#flagLetters(flags)
    if (changed && this.#takeIf(')')) return changed
    this.#at = start
    return undefined
  }

  #flagLetters(flags: Flags): Flags | undefined {
    const changed: Record<keyof Flags, boolean> = { ...flags }
    let value = true
    const start = this.#at
    for (;;) {
      const name = FLAG_NAMES.get(this.#next ?? '')
      if (name) changed[name] = value
      else if (this.#next === '-' && value) value = false
      else break
      this.#at++
    }
    return this.#at > start ? changed : undefined
  }

  #passOverBlanks(): boolean {
    if (/^\s$/u.test(this.#next ?? '')) {
      this.#at++
      return true
    }
    if (!this.#takeIf('#')) return false
    const end = this.#characters.indexOf('\n', this.#at)
    this.#at = end < 0 ? this.#characters.length : end
    return true
  }

  #repeated(node: PatternNode): PatternNode {
    let result = node
    for (;;) {
      const bounds = this.#quantifier()
      if (!bounds) return result
      if (result.kind === 'assertion') throw new PatternError('Nothing is there to be repeated.')
      // How much is taken first makes no difference to whether there is a match.
      if (this.#next === '+') throw new PatternError('Possessive quantifiers are not supported.')
      this.#takeIf('?')
      result = { kind: 'repeat', node: result, ...bounds }
    }
  }

  #quantifier(): { readonly least: number; readonly most: number } | undefined {
    if (this.#takeIf('*')) return { least: 0, most: Number.POSITIVE_INFINITY }
    if (this.#takeIf('+')) return { least: 1, most: Number.POSITIVE_INFINITY }
    if (this.#takeIf('?')) return { least: 0, most: 1 }
    const bounds = this.#bracedQuantifier()
    if (!bounds) return undefined
    const largest = Number.isFinite(bounds.most) ? bounds.most : bounds.least
    if (largest > MOST_REPEATS || bounds.least > bounds.most) throw new PatternError('A quantifier is out of range.')
    return bounds
  }

  /** `{2}`, `{2,}` or `{2,3}`. Otherwise the brace is a character like others. */
  #bracedQuantifier(): { readonly least: number; readonly most: number } | undefined {
    const start = this.#at
    if (!this.#takeIf('{')) return undefined
    const least = this.#digits()
    const hasComma = this.#takeIf(',')
    const most = hasComma ? this.#digits() : least
    if (least !== '' && this.#takeIf('}')) {
      return { least: Number(least), most: most === '' ? Number.POSITIVE_INFINITY : Number(most) }
    }
    this.#at = start
    return undefined
  }

  #digits(): string {
    let digits = ''
    while (digits.length < MOST_DIGITS && /^\d$/.test(this.#next ?? '')) digits += this.#take()
    return digits
  }

  #atom(flags: Flags): PatternNode {
    const character = this.#take()
    switch (character) {
      case '(':
        return this.#group(flags)
      case '[':
        return this.#setNode(this.#class(), flags)
      case '.':
        return this.#setNode(flags.dotAll ? () => true : (c) => c !== NEWLINE, flags)
      case '^':
        return { kind: 'assertion', assertion: flags.multiline ? 'line start' : 'text start' }
      case '$':
        return { kind: 'assertion', assertion: flags.multiline ? 'line end' : 'last line end' }
      case '\\':
        return this.#escaped(flags)
      case '*':
      case '+':
      case '?':
        throw new PatternError('Nothing is there to be repeated.')
      default:
        return literalNode(character.codePointAt(0)!, flags)
    }
  }

  #group(flags: Flags): PatternNode {
    if (++this.#depth > DEEPEST_NESTING) throw new PatternError('Groups are nested too deeply.')
    let inner = flags
    let lookahead: 'positive' | 'negative' | undefined
    if (this.#takeIf('?=')) lookahead = 'positive'
    else if (this.#takeIf('?!')) lookahead = 'negative'
    else if (this.#takeIf('?#')) return this.#comment()
    else if (this.#takeIf('?')) inner = this.#groupHead(flags)
    const node = this.#choice(inner)
    if (!this.#takeIf(')')) throw new PatternError('A parenthesis is not closed.')
    this.#depth--
    return lookahead ? { kind: 'lookahead', node, isNegative: lookahead === 'negative' } : node
  }

  #comment(): PatternNode {
    while (this.#take() !== ')') {}
    this.#depth--
    return { kind: 'sequence', nodes: [] }
  }

  /** Behind `(?`, where the group takes part in the match. Its name is of no use here. */
  #groupHead(flags: Flags): Flags {
    if (this.#takeIf(':') || this.#takeIf('|')) return flags
    const changed = this.#flagLetters(flags)
    if (changed) {
      if (this.#takeIf(':')) return changed
      throw new PatternError('A group of this kind is not supported.')
    }
    this.#takeIf('P')
    const close = this.#takeIf('<') ? '>' : this.#takeIf("'") ? "'" : undefined
    if (close === undefined || this.#next === '=' || this.#next === '!') {
      throw new PatternError('A group of this kind is not supported.')
    }
    for (let name = this.#take(); name !== close; name = this.#take()) {
      if (!/^\w$/.test(name)) throw new PatternError('The name of a group is malformed.')
    }
    return flags
  }

  #escaped(flags: Flags): PatternNode {
    if (this.#next === 'Q') {
      this.#at++
      return this.#quoted(flags)
    }
    const assertion = ASSERTIONS.get(this.#next ?? '')
    if (assertion) {
      this.#at++
      return { kind: 'assertion', assertion }
    }
    const set = this.#escapedSet()
    if (set) return this.#setNode(set, flags)
    return literalNode(this.#escapedCharacter({ isInClass: false }), flags)
  }

  #quoted(flags: Flags): PatternNode {
    const nodes: PatternNode[] = []
    while (this.#next !== undefined && !this.#takeIf('\\E'))
      nodes.push(literalNode(this.#take().codePointAt(0)!, flags))
    return { kind: 'sequence', nodes }
  }

  /** Behind a backslash: a set of characters, or undefined where it is a single one. */
  #escapedSet(): CharacterSet | undefined {
    const named = ESCAPED_SETS.get(this.#next ?? '')
    if (named) {
      this.#at++
      return named
    }
    if (this.#next !== 'p' && this.#next !== 'P') return undefined
    const isInverse = this.#take() === 'P'
    let name = this.#take()
    if (name === '{') {
      name = ''
      for (let each = this.#take(); each !== '}'; each = this.#take()) name += each
    }
    const isNegated = name.startsWith('^')
    const set = unicodeProperty(isNegated ? name.slice(1) : name)
    if (!set) throw new PatternError('There is no such property of characters.')
    return isInverse !== isNegated ? inverse(set) : set
  }

  /** Behind a backslash. */
  #escapedCharacter({ isInClass }: { readonly isInClass: boolean }): number {
    const character = this.#take()
    const control = CONTROL_CHARACTERS.get(character)
    if (control !== undefined) return control
    if (character === 'x') return this.#takeIf('{') ? this.#hexUpToBrace() : this.#hex(2)
    if (character === 'u') return this.#takeIf('{') ? this.#hexUpToBrace() : this.#hex(4)
    if (character === 'c') return (this.#take().toUpperCase().codePointAt(0)! & 0x7f) ^ 0x40
    if (character === 'b' && isInClass) return 0x08
    if (character === '0') return this.#octal()
    // References to groups, and escapes that PCRE keeps for itself.
    if (/^[A-Za-z0-9]$/.test(character)) throw new PatternError(`The escape \\${character} is not supported.`)
    return character.codePointAt(0)!
  }

  #octal(): number {
    let digits = ''
    while (digits.length < 2 && /^[0-7]$/.test(this.#next ?? '')) digits += this.#take()
    return digits === '' ? 0 : Number.parseInt(digits, 8)
  }

  #hex(most: number): number {
    let digits = ''
    while (digits.length < most && /^[0-9A-Fa-f]$/.test(this.#next ?? '')) digits += this.#take()
    return digits === '' ? 0 : Number.parseInt(digits, 16)
  }

  #hexUpToBrace(): number {
    const value = this.#hex(8)
    if (!this.#takeIf('}') || value > 0x10ffff) throw new PatternError('The number of a character is malformed.')
    return value
  }

  /** Behind an opening bracket. */
  #class(): CharacterSet {
    const isInverse = this.#takeIf('^')
    const sets: CharacterSet[] = []
    for (let isFirst = true; ; isFirst = false) {
      if (this.#next === ']' && !isFirst) break
      const posix = this.#posixSet()
      if (posix) {
        sets.push(posix)
        continue
      }
      const low = this.#classAtom()
      if (typeof low !== 'number') {
        sets.push(low)
        continue
      }
      if (this.#next !== '-' || this.#characters[this.#at + 1] === ']') {
        sets.push((c) => c === low)
        continue
      }
      this.#at++
      const high = this.#classAtom()
      if (typeof high !== 'number' || high < low) throw new PatternError('A range of characters is out of order.')
      sets.push((c) => c >= low && c <= high)
    }
    this.#at++
    const union: CharacterSet = sets.length === 1 ? sets[0]! : (c) => sets.some((set) => set(c))
    return isInverse ? inverse(union) : union
  }

  #classAtom(): number | CharacterSet {
    const character = this.#take()
    if (character !== '\\') return character.codePointAt(0)!
    return this.#escapedSet() ?? this.#escapedCharacter({ isInClass: true })
  }

  #posixSet(): CharacterSet | undefined {
    if (this.#next !== '[' || this.#characters[this.#at + 1] !== ':') return undefined
    const text = this.#characters.slice(this.#at, this.#at + 14).join('')
    const [whole, hat, name] = /^\[:(\^?)([a-z]{1,9}):\]/.exec(text) ?? []
    if (whole === undefined) return undefined
    const set = POSIX_SETS.get(name ?? '')
    if (!set) throw new PatternError('There is no such class of characters.')
    this.#at += whole.length
    return hat ? inverse(set) : set
  }

  #setNode(set: CharacterSet, { ignoreCase }: Flags): PatternNode {
    return { kind: 'character', set: ignoreCase ? withoutCase(set) : set, literal: undefined }
  }
}

function literalNode(codePoint: number, { ignoreCase }: Flags): PatternNode {
  const set: CharacterSet = (c) => c === codePoint
  return {
    kind: 'character',
    set: ignoreCase ? withoutCase(set) : set,
    literal: ignoreCase ? undefined : codePoint,
  }
}
