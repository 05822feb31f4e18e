/**
 * Regular expressions that cannot run away: all ways to match are followed at the same time, one character after the other
 * (Thompson's construction), so the time is the length of the text times that of the expression. Only lookahead looks at
 * characters twice; all of it is bounded by a number of steps.
 */
import { RequestError } from '../../document/request-error.ts'
import { isWordCharacter } from './character-sets.ts'
import { PatternError, parsePattern } from './pattern-parser.ts'
import type { Assertion, CharacterSet, PatternNode } from './pattern-syntax.ts'

export interface LinearPattern {
  /** Whether the text contains a match. */
  test(text: string): boolean
}

/** Undefined where the expression is malformed, too long, or has what is not supported. */
export function linearPattern(source: string): LinearPattern | undefined {
  if (source.length > LONGEST_SOURCE) return undefined
  try {
    const node = parsePattern(source)
    return literalPattern(node) ?? new Machine(compile(node))
  } catch (error) {
    if (error instanceof PatternError) return undefined
    throw error
  }
}

const LONGEST_SOURCE = 2000
const MOST_INSTRUCTIONS = 5000
/** Of one text; some hundredths of a second. Longer texts have as many as an expression of some instructions needs. */
const MOST_STEPS = 4_000_000
const STEPS_A_CHARACTER = 8

/** What most expressions are: some characters, and perhaps that they begin the text. */
function literalPattern(node: PatternNode): LinearPattern | undefined {
  if (node.kind !== 'sequence') return undefined
  const [first] = node.nodes
  const isAnchored = first?.kind === 'assertion' && first.assertion === 'text start'
  const characters = isAnchored ? node.nodes.slice(1) : node.nodes
  let literal = ''
  for (const each of characters) {
    if (each.kind !== 'character' || each.literal === undefined) return undefined
    literal += String.fromCodePoint(each.literal)
  }
  return { test: (text) => (isAnchored ? text.startsWith(literal) : text.includes(literal)) }
}

type Instruction =
  | { readonly kind: 'character'; readonly set: CharacterSet }
  | { readonly kind: 'split'; readonly first: number; second: number }
  | { readonly kind: 'jump'; target: number }
  | { readonly kind: 'assertion'; readonly assertion: Assertion }
  | { readonly kind: 'lookahead'; readonly machine: Machine; readonly isNegative: boolean }
  | { readonly kind: 'match' }

function compile(node: PatternNode): Instruction[] {
  const program: Instruction[] = []
  emit(program, node)
  program.push({ kind: 'match' })
  return program
}

function emit(program: Instruction[], node: PatternNode): void {
  if (program.length > MOST_INSTRUCTIONS) throw new PatternError('The expression is too large.')
  if (node.kind === 'character') program.push({ kind: 'character', set: node.set })
  else if (node.kind === 'assertion') program.push({ kind: 'assertion', assertion: node.assertion })
  else if (node.kind === 'lookahead') {
    program.push({ kind: 'lookahead', machine: new Machine(compile(node.node)), isNegative: node.isNegative })
  } else if (node.kind === 'sequence') for (const each of node.nodes) emit(program, each)
  else if (node.kind === 'choice') emitChoice(program, node.nodes)
  else emitRepeat(program, node)
}

function emitChoice(program: Instruction[], branches: readonly PatternNode[]): void {
  const ends: { target: number }[] = []
  for (const [i, branch] of branches.entries()) {
    const isLast = i === branches.length - 1
    const split = { kind: 'split' as const, first: program.length + 1, second: 0 }
    if (!isLast) program.push(split)
    emit(program, branch)
    if (isLast) break
    const end = { kind: 'jump' as const, target: 0 }
    program.push(end)
    ends.push(end)
    split.second = program.length
  }
  for (const end of ends) end.target = program.length
}

function emitRepeat(
  program: Instruction[],
  { node, least, most }: Extract<PatternNode, { readonly kind: 'repeat' }>,
): void {
  for (let i = 0; i < least; i++) emit(program, node)
  if (most === Number.POSITIVE_INFINITY) {
    const start = program.length
    const split = { kind: 'split' as const, first: start + 1, second: 0 }
    program.push(split)
    emit(program, node)
    program.push({ kind: 'jump', target: start })
    split.second = program.length
    return
  }
  const splits: { second: number }[] = []
  for (let i = least; i < most; i++) {
    const split = { kind: 'split' as const, first: program.length + 1, second: 0 }
    program.push(split)
    splits.push(split)
    emit(program, node)
  }
  for (const split of splits) split.second = program.length
}

interface Steps {
  left: number
}

class Machine implements LinearPattern {
  readonly #program: readonly Instruction[]
  /** The position at which an instruction was last reached, so that it is followed once at each. */
  readonly #reachedAt: Int32Array
  #current: number[] = []
  #following: number[] = []
  readonly #pending: number[] = []

  constructor(program: readonly Instruction[]) {
    this.#program = program
    this.#reachedAt = new Int32Array(program.length)
  }

  test(text: string): boolean {
    return this.#run(text, 0, { isAnchored: false, steps: stepsFor(text) })
  }

  #run(text: string, start: number, { isAnchored, steps }: { isAnchored: boolean; steps: Steps }): boolean {
    this.#reachedAt.fill(-1)
    steps.left -= this.#reachedAt.length >> 3
    this.#current.length = 0
    for (let at = start; ; ) {
      if ((!isAnchored || at === start) && this.#follow(text, at, 0, this.#current, steps)) return true
      if (at >= text.length || (isAnchored && this.#current.length === 0)) return false
      const codePoint = text.codePointAt(at)!
      const next = at + (codePoint > 0xffff ? 2 : 1)
      this.#following.length = 0
      for (const place of this.#current) {
        const instruction = this.#program[place]!
        if (instruction.kind !== 'character' || !instruction.set(codePoint)) continue
        if (this.#follow(text, next, place + 1, this.#following, steps)) return true
      }
      steps.left -= this.#current.length
      ;[this.#current, this.#following] = [this.#following, this.#current]
      at = next
    }
  }

  /** Adds the characters that are waited for from here on; true where the match is complete. */
  #follow(text: string, at: number, start: number, waiting: number[], steps: Steps): boolean {
    const pending = this.#pending
    pending.length = 0
    pending.push(start)
    for (let place = pending.pop(); place !== undefined; place = pending.pop()) {
      if (this.#reachedAt[place] === at) continue
      this.#reachedAt[place] = at
      if (--steps.left < 0) throw tooManySteps()
      const instruction = this.#program[place]!
      if (instruction.kind === 'match') return true
      if (instruction.kind === 'character') waiting.push(place)
      else if (instruction.kind === 'jump') pending.push(instruction.target)
      else if (instruction.kind === 'split') pending.push(instruction.second, instruction.first)
      else if (instruction.kind === 'assertion') {
        if (holds(instruction.assertion, text, at)) pending.push(place + 1)
      } else if (instruction.machine.#run(text, at, { isAnchored: true, steps }) !== instruction.isNegative) {
        pending.push(place + 1)
      }
    }
    return false
  }
}

function stepsFor({ length }: string): Steps {
  return { left: Math.max(MOST_STEPS, STEPS_A_CHARACTER * length) }
}

function tooManySteps(): RequestError {
  return new RequestError('invalid', 'bad_arg', 'Bad argument for operator $regex: it takes too long on a document.')
}

function holds(assertion: Assertion, text: string, at: number): boolean {
  switch (assertion) {
    case 'text start':
      return at === 0
    case 'text end':
      return at === text.length
    case 'last line end':
      return at === text.length || (at === text.length - 1 && text[at] === '\n')
    case 'line start':
      return at === 0 || text[at - 1] === '\n'
    case 'line end':
      return at === text.length || text[at] === '\n'
    default: {
      const isEdge = isWordAt(text, at - 1) !== isWordAt(text, at)
      return isEdge === (assertion === 'word edge')
    }
  }
}

function isWordAt(text: string, at: number): boolean {
  return at >= 0 && at < text.length && isWordCharacter(text.charCodeAt(at))
}
