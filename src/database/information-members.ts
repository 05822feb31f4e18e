/** The numbers of a database by the names of the interface, as clients and functions see them. */
import type { Database } from './database.ts'
import type { DatabaseView } from './database-view.ts'

/** The format in which databases are stored, by CouchDB's count. */
const DISK_FORMAT_VERSION = 6

/** As they are now, or in a view that was taken just now. */
export async function informationMembers(database: Database, view?: DatabaseView): Promise<Record<string, unknown>> {
  const information = await database.information(view)
  const { fileBytes, dataBytes } = information
  return {
    db_name: information.name,
    doc_count: information.documentCount,
    doc_del_count: information.deletedCount,
    update_seq: information.updateSequence,
    purge_seq: information.purgeSequence,
    compact_running: information.isCompacting,
    disk_size: fileBytes,
    data_size: dataBytes,
    instance_start_time: String(information.openedUs),
    disk_format_version: DISK_FORMAT_VERSION,
    // A commit is on disk before anybody can see it.
    committed_update_seq: information.updateSequence,
    // Where clients of later releases look for the same.
    sizes: { file: fileBytes, external: dataBytes, active: dataBytes },
    props: database.isPartitioned ? { partitioned: true } : {},
    cluster: { q: 1, n: 1, w: 1, r: 1 },
  }
}
