/**
 * Partitions: in a partitioned database the id of each document is `partition:id`, so that the documents of a partition are
 * adjacent in key order. Design and local documents belong to no partition.
 */
import { isDesignId, isLocalId, parseDocumentId } from './ids.ts'
import { illegalDocumentId, RequestError } from './request-error.ts'

const SEPARATOR = ':'

/** Comes right after the separator in the order of bytes. */
const AFTER_SEPARATOR = ';'

/** Throws where no partition can have this name. */
export function checkPartition(name: string): void {
  if (name === '') throw illegalPartition('Partition must not be empty')
  if (name.startsWith('_')) throw illegalPartition('Partition must not start with an underscore')
  if (!name.isWellFormed()) throw illegalPartition('Partition must be valid UTF-8')
  if (name.includes(SEPARATOR)) throw illegalPartition('Partition must not contain a colon')
}

/** Throws where the id has no partition, or an invalid one. All other rules for ids are checked before. */
export function checkPartitionedId(id: string): void {
  if (isDesignId(id) || isLocalId(id)) return
  const end = id.indexOf(SEPARATOR)
  if (end < 0) throw illegalDocumentId('Doc id must be of form partition:id')
  checkPartition(id.slice(0, end))
  parseDocumentId(id.slice(end + 1))
}

/** The range of ids of a partition: `first` inclusive, `last` exclusive. */
export function partitionIds(name: string): { readonly first: string; readonly last: string } {
  return { first: name + SEPARATOR, last: name + AFTER_SEPARATOR }
}

function illegalPartition(reason: string): RequestError {
  return new RequestError('invalid', 'illegal_partition', reason)
}
