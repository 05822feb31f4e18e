/**
 * Opens what is sent together with the contents of attachments. They are read later and piece by piece, as fast as the
 * client takes them: until then they are kept, whatever becomes of the documents and however often is compacted.
 */

import type { Database } from '../database.ts'
import type { DatabaseView } from '../database-view.ts'
import type { AttachmentContent } from '../layout/stored-body.ts'

export interface Kept<T> {
  readonly opened: T
  /** To be called when the contents were sent, or will not be. */
  release(): void
}

/** Contents that compaction takes away while they are being opened make it look again; that often is no coincidence. */
export const ATTEMPTS = 5

export async function openKept<T>(
  database: Database,
  open: (view: DatabaseView) => Promise<T>,
  contentsOf: (opened: T) => readonly AttachmentContent[],
): Promise<Kept<T>> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    using view = database.view()
    const opened = await open(view)
    view.release()
    const release = await database.attachments.keepAll(contentsOf(opened))
    if (release !== 'gone') return { opened, release }
  }
  throw contentsMissing()
}

export function contentsMissing(): Error {
  return new Error('The contents of attachments are not where their documents say.')
}
