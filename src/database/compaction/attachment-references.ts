/**
 * The numbers of the attachments that revisions refer to. They are read from one state of the database and, where other
 * servers write to it too, from what changed since.
 */
import type { KeyRange, Page, Snapshot, Store } from '../../storage/store.ts'
import { DatabaseView } from '../database-view.ts'
import { decodeChange } from '../layout/change-row.ts'
import { recordHasAttachments } from '../layout/document-record.ts'
import {
  afterPrefix,
  CHANGE_PREFIX,
  changeKey,
  type DatabaseState,
  DOCUMENT_PREFIX,
  idOfDocumentKey,
} from '../layout/keys.ts'

export class AttachmentReferences {
  readonly #numbers = new Set<number>()
  /** All changes up to this sequence were read. */
  #sequence = 0

  static async of(store: Store): Promise<AttachmentReferences> {
    const references = new AttachmentReferences()
    using view = new DatabaseView(store.snapshot())
    const { updateSequence } = await view.state()
    await references.#readDocuments(view)
    references.#sequence = updateSequence
    return references
  }

  has(number: number): boolean {
    return this.#numbers.has(number)
  }

  /** Adds what documents refer to that changed since the last time. Whatever adds a reference changes its document. */
  async readChanges(snapshot: Snapshot, { updateSequence }: DatabaseState): Promise<void> {
    const view = new DatabaseView(snapshot)
    let rest: KeyRange | undefined = { from: changeKey(this.#sequence + 1), to: afterPrefix(CHANGE_PREFIX) }
    while (rest) {
      const page: Page = await snapshot.page(rest)
      const ids = Array.from({ length: page.length }, (_, row) => decodeChange(page.value(row)).id)
      await this.#add(view, ids)
      rest = page.next
    }
    this.#sequence = updateSequence
  }

  async #readDocuments(view: DatabaseView): Promise<void> {
    let rest: KeyRange | undefined = { from: DOCUMENT_PREFIX, to: afterPrefix(DOCUMENT_PREFIX) }
    while (rest) {
      const page: Page = await view.snapshot.page(rest)
      const ids: string[] = []
      for (let row = 0; row < page.length; row++) {
        if (recordHasAttachments(page.value(row))) ids.push(idOfDocumentKey(page.key(row)))
      }
      await this.#add(view, ids)
      rest = page.next
    }
  }

  async #add(view: DatabaseView, ids: readonly string[]): Promise<void> {
    const records = await view.records(ids)
    const bodies = records.flatMap(({ record }) => (record?.hasAttachments ? record.tree.bodies() : []))
    for (const { attachments } of await view.bodies(bodies)) {
      for (const { number } of attachments) this.#numbers.add(number)
    }
  }
}
