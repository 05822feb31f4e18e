/**
 * Opens documents that are sent with the contents of their attachments. The contents are read later, at the pace of the
 * client. Until then they are protected from compaction.
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
  return new Error('The contents of attachments are missing.')
}
