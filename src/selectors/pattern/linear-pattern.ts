/**
 * Regular expressions that cannot run away: all ways to match are followed at the same time, one character after the other
 * (Thompson's construction), so the time is at most the length of the text times that of the expression. Where nothing but
 * the beginning and the end of a text is looked around at, ways that were followed before are not followed again. Only
 * lookahead looks at characters twice; all of it is bounded by what a document may cost.
 */
import { spend, WORK_A_CHARACTER, WORK_A_STEP } from '../match-work.ts'
import { isWordCharacter } from './character-sets.ts'
import { type KnownState, KnownStates, MATCHED } from './known-states.ts'
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
  return {
    test(text) {
      if (isAnchored) return text.startsWith(literal)
      spend(text.length * WORK_A_CHARACTER)
      return text.includes(literal)
    },
  }
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

class Machine implements LinearPattern {
  readonly #program: readonly Instruction[]
  /** The position at which an instruction was last reached, so that it is followed once at each. */
  readonly #reachedAt: Int32Array
  /** Undefined where characters around a position decide. */
  readonly #known: KnownStates | undefined
  #current: number[] = []
  #following: number[] = []
  readonly #pending: number[] = []

  constructor(program: readonly Instruction[]) {
    this.#program = program
    this.#reachedAt = new Int32Array(program.length)
    this.#known = program.every(isOfTextAlone) ? new KnownStates() : undefined
  }

  test(text: string): boolean {
    this.#begin()
    if (!this.#known) return this.#run(text, 0, { isAnchored: false })
    if (this.#follow(text, 0, 0, this.#current)) return true
    const at = this.#runKnown(text, this.#known)
    return at === MATCHED || this.#run(text, at, { isAnchored: false })
  }

  #begin(): void {
    this.#reachedAt.fill(-1)
    spend(this.#reachedAt.length)
    this.#current.length = 0
  }

  /**
   * From the beginning of a text up to where its end could be seen. Answers the position; what is waited for there is what
   * `#run` goes on with.
   */
  #runKnown(text: string, known: KnownStates): number | typeof MATCHED {
    const end = text.endsWith('\n') ? text.length - 1 : text.length
    let state = known.of(this.#current)
    let at = 0
    for (;;) {
      const codePoint = text.codePointAt(at)
      const next = at + (codePoint !== undefined && codePoint > 0xffff ? 2 : 1)
      if (codePoint === undefined || next >= end) break
      let following = state.after(codePoint)
      if (following === undefined) {
        following = this.#learned(state, codePoint, known)
        known.learn(state, codePoint, following)
      }
      if (following === MATCHED) return MATCHED
      state = following
      at = next
    }
    spend(at * WORK_A_CHARACTER)
    this.#begin()
    this.#current.push(...state.places)
    return at
  }

  #learned({ places }: KnownState, codePoint: number, known: KnownStates): KnownState | typeof MATCHED {
    this.#begin()
    for (const place of places) if (this.#advances(place, codePoint, INSIDE, 1, this.#current)) return MATCHED
    spend(places.length * WORK_A_STEP)
    return this.#follow(INSIDE, 1, 0, this.#current) ? MATCHED : known.of(this.#current)
  }

  /** What is waited for at the start is there already. */
  #run(text: string, start: number, { isAnchored }: { isAnchored: boolean }): boolean {
    for (let at = start; ; ) {
      if ((!isAnchored || at === start) && this.#follow(text, at, 0, this.#current)) return true
      if (at >= text.length || (isAnchored && this.#current.length === 0)) return false
      const codePoint = text.codePointAt(at)!
      const next = at + (codePoint > 0xffff ? 2 : 1)
      this.#following.length = 0
      for (const place of this.#current) {
        if (this.#advances(place, codePoint, text, next, this.#following)) return true
      }
      spend(this.#current.length * WORK_A_STEP)
      ;[this.#current, this.#following] = [this.#following, this.#current]
      at = next
    }
  }

  /** Whether the match is complete after a character that one instruction waits for. */
  #advances(place: number, codePoint: number, text: string, next: number, waiting: number[]): boolean {
    const instruction = this.#program[place]!
    if (instruction.kind !== 'character' || !instruction.set(codePoint)) return false
    return this.#follow(text, next, place + 1, waiting)
  }

  /** Adds the characters that are waited for from here on; true where the match is complete. */
  #follow(text: string, at: number, start: number, waiting: number[]): boolean {
    const pending = this.#pending
    pending.length = 0
    pending.push(start)
    for (let place = pending.pop(); place !== undefined; place = pending.pop()) {
      if (this.#reachedAt[place] === at) continue
      this.#reachedAt[place] = at
      spend(WORK_A_STEP)
      const instruction = this.#program[place]!
      if (instruction.kind === 'match') return true
      if (instruction.kind === 'character') waiting.push(place)
      else if (instruction.kind === 'jump') pending.push(instruction.target)
      else if (instruction.kind === 'split') pending.push(instruction.second, instruction.first)
      else if (instruction.kind === 'assertion') {
        if (holds(instruction.assertion, text, at)) pending.push(place + 1)
      } else if (instruction.machine.#looksAhead(text, at) !== instruction.isNegative) pending.push(place + 1)
    }
    return false
  }

  #looksAhead(text: string, at: number): boolean {
    this.#begin()
    return this.#run(text, at, { isAnchored: true })
  }
}

/** A text at whose second position no assertion of beginnings and ends holds. */
const INSIDE = 'text'

/** Whether it looks around at the beginning and the end of a text at most. */
function isOfTextAlone(instruction: Instruction): boolean {
  if (instruction.kind === 'lookahead') return false
  if (instruction.kind !== 'assertion') return true
  const { assertion } = instruction
  return assertion === 'text start' || assertion === 'text end' || assertion === 'last line end'
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
