/**
 * The documents of a replicator database, then each change: in the order of changes, the last revision of each. A
 * deleted document comes without its text.
 */
import type { Database } from '../../database/database.ts'
import { decodeChange } from '../../database/layout/change-row.ts'
import { afterPrefix, CHANGE_PREFIX, changeKey } from '../../database/layout/keys.ts'
import { isDesignId } from '../../document/ids.ts'
import type { ReplicationDocument } from './replication-document.ts'

export type DocumentChange =
  | { readonly deleted: false; readonly document: ReplicationDocument }
  | { readonly deleted: true; readonly id: string }

/** Changes that are read at a time. */
const ROWS = 100

const AFTER_ALL = afterPrefix(CHANGE_PREFIX)

export class DocumentFeed {
  readonly #database: Database
  #sequence = 0

  constructor(database: Database) {
    this.#database = database
  }

  /** The next changes since the last call; empty if there are none. */
  async next(): Promise<DocumentChange[]> {
    for (;;) {
      const { changes, isEnd } = await this.#read()
      if (changes.length > 0 || isEnd) return changes
    }
  }

  async #read(): Promise<{ changes: DocumentChange[]; isEnd: boolean }> {
    using view = this.#database.view()
    const range = { from: changeKey(this.#sequence + 1), to: AFTER_ALL }
    const page = await view.snapshot.page(range, { rows: ROWS })
    const rows = Array.from({ length: page.length }, (_, i) => decodeChange(page.value(i)))
    const documents = rows.filter(({ id }) => !isDesignId(id))
    const live = documents.filter(({ deleted }) => !deleted)
    const bodies = await view.bodies(live.map(({ body }) => body))
    const found = new Map(live.map(({ id }, i) => [id, bodies[i]]))
    this.#sequence = rows.at(-1)?.sequence ?? this.#sequence
    const changes = documents.map(({ id, leaves }): DocumentChange => {
      const stored = found.get(id)
      const [revision] = leaves
      if (!stored || revision === undefined) return { deleted: true, id }
      return { deleted: false, document: { id, revision, body: stored.text, attachments: stored.attachments } }
    })
    return { changes, isEnd: page.next === undefined }
  }
}
