/**
 * Writes that were accepted before they are done (`batch=ok`): collected for a moment and written together. Bounded: a
 * full batch is written at once. Nobody waits for the outcome, so what is refused goes to the log.
 */
import type { Log } from '../runtime/log.ts'
import type { Commit } from './document-guard.ts'
import type { DocumentEdit, EditOutcome } from './edit.ts'

const DELAY_MS = 500
const BATCH_EDITS = 500
const BATCH_BYTES = 4 * 1024 * 1024

export class BatchedWrites {
  readonly #log: Log
  #edits: { readonly edit: DocumentEdit; readonly commit: Commit }[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | undefined
  readonly #writing = new Set<Promise<void>>()

  constructor(log: Log) {
    this.#log = log
  }

  /** Takes edits that `commit` is to write. */
  add(edits: readonly DocumentEdit[], commit: Commit): void {
    for (const edit of edits) {
      this.#edits.push({ edit, commit })
      this.#bytes += edit.body.length
    }
    if (this.#edits.length >= BATCH_EDITS || this.#bytes >= BATCH_BYTES) this.#write()
    else this.#timer ??= setTimeout(() => this.#write(), DELAY_MS)
  }

  /** Takes writes that are under way by another road: nobody waits for their outcomes either. */
  follow(edits: readonly DocumentEdit[], outcomes: Promise<EditOutcome[]>): void {
    const writing = outcomes
      .then(
        (all) => {
          for (const [i, edit] of edits.entries()) {
            const outcome = all[i]
            if (outcome?.outcome === 'refused') this.#complain(edit, outcome.error.message)
          }
        },
        (error: unknown) => {
          for (const edit of edits) this.#complain(edit, String(error))
        },
      )
      .then(() => {
        this.#writing.delete(writing)
      })
    this.#writing.add(writing)
  }

  /** Resolves when all that was added is written or refused. */
  async flush(): Promise<void> {
    this.#write()
    await Promise.all(this.#writing)
  }

  #write(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const edits = this.#edits
    if (edits.length === 0) return
    this.#edits = []
    this.#bytes = 0
    // Each edit is a request of its own: one document written twice is two writes.
    const writing = Promise.all(edits.map(({ edit, commit }) => this.#writeOne(edit, commit))).then(() => {
      this.#writing.delete(writing)
    })
    this.#writing.add(writing)
  }

  async #writeOne(edit: DocumentEdit, commit: Commit): Promise<void> {
    try {
      const [outcome] = await commit([edit])
      if (outcome?.outcome === 'refused') this.#complain(edit, outcome.error.message)
    } catch (error) {
      this.#complain(edit, String(error))
    }
  }

  #complain(edit: DocumentEdit, reason: string): void {
    this.#log.warn('A batched write was refused.', { document: edit.id, reason })
  }
}
