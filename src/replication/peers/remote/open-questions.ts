/**
 * Which requested revisions a source has not answered yet. A reply that omits some of them does not mean that they do
 * not exist: they would be lost.
 */
import type { WantedDocument } from '../peer.ts'
import type { MissingRevision, ReceivedRevision } from './received-revisions.ts'

interface Question {
  readonly asked: WantedDocument
  /** Revisions that are not answered yet. */
  readonly open: FewTexts
  readonly received: FewTexts
}

export class OpenQuestions {
  readonly #wanted: readonly WantedDocument[]
  readonly #questions = new Map<string, Question>()
  #isAnswered = false

  constructor(wanted: readonly WantedDocument[]) {
    this.#wanted = wanted
    for (const asked of wanted) {
      this.#questions.set(asked.id, { asked, open: new FewTexts(asked.revisions), received: new FewTexts() })
    }
  }

  /** How many there are. */
  get size(): number {
    return this.#questions.values().reduce((sum, { open }) => sum + open.size, 0)
  }

  get left(): readonly WantedDocument[] {
    if (!this.#isAnswered) return this.#wanted
    return [...this.#questions.values()].flatMap(({ asked, open }) =>
      open.size === 0 ? [] : [{ ...asked, revisions: open.all() }],
    )
  }

  asked(id: string): WantedDocument | undefined {
    return this.#questions.get(id)?.asked
  }

  /** Records a document. False if it was not requested, or was already received. */
  isNew(document: ReceivedRevision): boolean {
    const { id, revision } = document
    const question = this.#questions.get(id)
    if (!question || question.received.has(revision)) return false
    this.#isAnswered = true
    const { open, received } = question
    received.add(revision)
    // A source may send a newer revision instead.
    if (!open.delete(revision)) for (const each of document.ancestors) open.delete(each)
    return true
  }

  /** A row without a revision answers nothing. */
  missing({ id, revision }: MissingRevision): void {
    if (id === undefined || revision === undefined) return
    this.#isAnswered = true
    this.#questions.get(id)?.open.delete(revision)
  }
}

/** A set of strings that nearly always has one element, and is then only a string. */
class FewTexts {
  #only: string | undefined
  #several: Set<string> | undefined

  constructor(texts: readonly string[] = []) {
    if (texts.length === 1) this.#only = texts[0]
    else if (texts.length > 1) this.#several = new Set(texts)
  }

  get size(): number {
    return this.#several?.size ?? (this.#only === undefined ? 0 : 1)
  }

  all(): string[] {
    if (this.#several) return [...this.#several]
    return this.#only === undefined ? [] : [this.#only]
  }

  has(text: string): boolean {
    return this.#several ? this.#several.has(text) : this.#only === text
  }

  add(text: string): void {
    if (this.#several) this.#several.add(text)
    else if (this.#only === undefined) this.#only = text
    else {
      this.#several = new Set([this.#only, text])
      this.#only = undefined
    }
  }

  delete(text: string): boolean {
    if (this.#several) return this.#several.delete(text)
    if (this.#only !== text) return false
    this.#only = undefined
    return true
  }
}
