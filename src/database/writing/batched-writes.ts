/**
 * Writes that were accepted before they are committed (`batch=ok`). They are collected for a moment and written together. A
 * full batch is written at once. No client waits for the outcome, so refusals are logged.
 */
import type { Log } from '../../runtime/log/log.ts'
import type { Commit } from '../user-context.ts'
import type { DocumentEdit, EditOutcome } from './edit.ts'

const DELAY_MS = 500
const BATCH_EDITS = 500
const BATCH_BYTES = 4 * 1024 * 1024

export class BatchedWrites {
  readonly #log: Log
  #edits: { readonly edit: DocumentEdit; readonly commit: Commit; readonly release: () => void }[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | undefined
  readonly #writing = new Set<Promise<void>>()

  constructor(log: Log) {
    this.#log = log
  }

  /** Takes an edit that `commit` is to write; `release` is called when it is written or refused. */
  add(edit: DocumentEdit, commit: Commit, release: () => void): void {
    this.#edits.push({ edit, commit, release })
    this.#bytes += heldBytes(edit)
    if (this.#edits.length >= BATCH_EDITS || this.#bytes >= BATCH_BYTES) this.#write()
    else this.#timer ??= setTimeout(() => this.#write(), DELAY_MS)
  }

  /** Tracks a write that is already under way; nobody waits for its outcome either. */
  follow(edit: DocumentEdit, outcomes: Promise<EditOutcome[]>, release: () => void): void {
    const writing = this.#settle(edit, outcomes)
      .finally(release)
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
    const writing = Promise.all(
      edits.map(({ edit, commit, release }) => this.#settle(edit, commit([edit])).finally(release)),
    ).then(() => {
      this.#writing.delete(writing)
    })
    this.#writing.add(writing)
  }

  async #settle(edit: DocumentEdit, outcomes: Promise<EditOutcome[]>): Promise<void> {
    try {
      const [outcome] = await outcomes
      if (outcome?.outcome === 'refused') this.#complain(edit, outcome.error.message)
    } catch (error) {
      this.#complain(edit, String(error))
    }
  }

  #complain(edit: DocumentEdit, reason: string): void {
    this.#log.warn('A batched write was refused.', { document: edit.id, reason })
  }
}

/** What an edit keeps in memory while it waits. */
function heldBytes(edit: DocumentEdit): number {
  let bytes = edit.body.length
  if (edit.kind === 'local') return bytes
  for (const { puts } of edit.attachments ?? []) for (const [, chunk] of puts) bytes += chunk.length
  return bytes
}
