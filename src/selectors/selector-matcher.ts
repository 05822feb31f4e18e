/**
 * A selector made ready to be matched with many documents, each given as its JSON text. The text is read once and no
 * further than needed: it is left at the first condition that fails.
 */
import type { Condition, FieldCondition } from './condition.ts'
import { FieldPlaces, MISSING } from './field-places.ts'
import { beginDocument, spend, WORK_A_TRIAL } from './match-work.ts'
import { parseSelector } from './parse-selector.ts'
import { type ReadyTest, readyTest } from './value-tests.ts'

export interface SelectorMatcher {
  /** Whether the value whose JSON text begins at `start` matches. The text has no blanks between its tokens. */
  matches(text: Buffer, start?: number): boolean
  /** The same where some members of the document do not lie in the text, but each in one of its own. */
  matchesBeside(members: ReadonlyMap<string, Buffer>, text: Buffer, start: number): boolean
  /** The members of a document that the selector looks at. */
  readonly members: readonly string[]
}

/** Takes a selector as a client sends it. Throws the error of the interface where it cannot be one. */
export function selectorMatcher(selector: unknown): SelectorMatcher {
  return conditionMatcher(parseSelector(selector))
}

export function conditionMatcher(condition: Condition): SelectorMatcher {
  return new DocumentMatcher(condition)
}

/** The cost is counted for each document. */
class DocumentMatcher implements SelectorMatcher {
  readonly #matcher: Matcher

  constructor(condition: Condition) {
    this.#matcher = new Matcher(condition)
  }

  get members(): readonly string[] {
    return this.#matcher.members
  }

  matches(text: Buffer, start = 0): boolean {
    beginDocument(text.length)
    return this.#matcher.matches(text, start)
  }

  matchesBeside(members: ReadonlyMap<string, Buffer>, text: Buffer, start: number): boolean {
    beginDocument(text.length)
    return this.#matcher.matchesBeside(members, text, start)
  }
}

type Evaluation = () => boolean

/** One condition on a field, made ready. */
interface ReadyField {
  readonly slot: number
  readonly test: ReadyTest
  readonly passesMissing: boolean
}

class Matcher {
  readonly #places = new FieldPlaces()
  /** By the field: conditions that must hold whatever the others say. */
  readonly #required: ReadyField[][] = []
  /** What is left to be asked when all fields are found. */
  readonly #others: readonly Evaluation[]
  readonly #accept = (slot: number) => this.#passes(slot)

  constructor(condition: Condition) {
    const parts = conjuncts(condition)
    for (const part of parts) if (part.kind === 'field') this.#require(this.#field(part))
    this.#others = parts.filter((part) => part.kind !== 'field').map((part) => this.#evaluation(part))
  }

  get members(): readonly string[] {
    return this.#places.topNames
  }

  matches(text: Buffer, start: number): boolean {
    return this.#places.find(text, start, this.#accept) && this.#rest()
  }

  matchesBeside(members: ReadonlyMap<string, Buffer>, text: Buffer, start: number): boolean {
    return this.#places.findBeside(members, text, start, this.#accept) && this.#rest()
  }

  #rest(): boolean {
    const { places } = this.#places
    for (const fields of this.#required) {
      if (!fields) continue
      for (const { slot, passesMissing } of fields) {
        if (places[slot]! < 0 && !(passesMissing && places[slot] === MISSING)) return false
      }
    }
    for (const evaluate of this.#others) if (!evaluate()) return false
    return true
  }

  #require(field: ReadyField): void {
    const { slot } = field
    this.#required[slot] ??= []
    this.#required[slot].push(field)
  }

  /** Asked when a field was found. */
  #passes(slot: number): boolean {
    const required = this.#required[slot]
    if (!required) return true
    const text = this.#places.texts[slot]!
    const at = this.#places.places[slot]!
    for (const { test } of required) if (!test(text, at)) return false
    return true
  }

  #field({ field, test }: FieldCondition): ReadyField {
    const order = field.name === '_id' ? 'bytes' : 'collation'
    return {
      slot: this.#places.add(field),
      test: readyTest(test, order, innerTest),
      passesMissing: test.operator === '$exists' && !test.argument,
    }
  }

  #evaluation(condition: Condition): Evaluation {
    if (condition.kind === 'everything') return () => true
    if (condition.kind === 'field') return this.#fieldEvaluation(this.#field(condition))
    const parts = condition.parts.map((part) => this.#evaluation(part))
    if (condition.kind === 'all') return () => parts.every((evaluate) => evaluate())
    return parts.length === 0 ? () => true : () => parts.some((evaluate) => evaluate())
  }

  #fieldEvaluation({ slot, test, passesMissing }: ReadyField): Evaluation {
    const { places, texts } = this.#places
    return () => {
      const at = places[slot]!
      return at >= 0 ? test(texts[slot]!, at) : passesMissing && at === MISSING
    }
  }
}

/** The conditions that must all hold. */
function conjuncts(condition: Condition): readonly Condition[] {
  return condition.kind === 'all' ? condition.parts.flatMap(conjuncts) : [condition]
}

/** Of elements of arrays, and of names. */
function innerTest(condition: Condition): ReadyTest {
  const matcher = new Matcher(condition)
  return (text, at) => {
    spend(WORK_A_TRIAL)
    return matcher.matches(text, at)
  }
}
