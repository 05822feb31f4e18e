/** The numbers of a database by the names of the interface, as clients and functions see them. */
import type { Database } from './database.ts'

/** The format in which databases are stored, by CouchDB's count. */
const DISK_FORMAT_VERSION = 6

export async function informationMembers(database: Database): Promise<Record<string, unknown>> {
  const information = await database.information()
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
