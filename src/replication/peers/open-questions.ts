/**
 * Which of the revisions that a source was asked for it has not answered yet. A reply that is silent about some of them
 * must not be taken for one that has none: they would be lost.
 */
import type { WantedDocument } from './peer.ts'
import type { MissingRevision, ReceivedRevision } from './received-revisions.ts'

export class OpenQuestions {
  readonly #asked: ReadonlyMap<string, WantedDocument>
  readonly #open: Map<string, Set<string>>
  readonly #received = new Map<string, Set<string>>()

  constructor(wanted: readonly WantedDocument[]) {
    this.#asked = new Map(wanted.map((each) => [each.id, each]))
    this.#open = new Map(wanted.map(({ id, revisions }) => [id, new Set(revisions)]))
  }

  /** How many there are. */
  get size(): number {
    return this.#open.values().reduce((sum, revisions) => sum + revisions.size, 0)
  }

  get left(): WantedDocument[] {
    return [...this.#asked.values()].flatMap((asked) => {
      const revisions = [...(this.#open.get(asked.id) ?? [])]
      return revisions.length === 0 ? [] : [{ ...asked, revisions }]
    })
  }

  asked(id: string): WantedDocument | undefined {
    return this.#asked.get(id)
  }

  /** Notes a document. False where nobody asked for it, or it came before. */
  isNew(document: ReceivedRevision): boolean {
    const { id, revision } = document
    if (!this.#asked.has(id)) return false
    const received = this.#received.get(id) ?? new Set()
    if (received.has(revision)) return false
    this.#received.set(id, received.add(revision))
    const open = this.#open.get(id) ?? new Set()
    // A source sends what became of a revision meanwhile.
    if (!open.delete(revision)) for (const each of document.ancestors) open.delete(each)
    return true
  }

  /** What does not say which revision it means answers none. */
  missing({ id, revision }: MissingRevision): void {
    if (id !== undefined && revision !== undefined) this.#open.get(id)?.delete(revision)
  }
}
