/** What may not be written because of partitions: ids without one, and views by partition where there are none. */
import { isDesignId } from '../../document/ids.ts'
import { checkPartitionedId } from '../../document/partition.ts'
import { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { DocumentEdit } from './edit.ts'

/** Why an edit cannot be written to a database that is partitioned, or is not. */
export function partitionRefusal(edit: DocumentEdit, isPartitioned: boolean): RequestError | undefined {
  if (!isPartitioned) return asksForPartitions(edit) ? partitionedDesign() : undefined
  try {
    checkPartitionedId(edit.id)
    return undefined
  } catch (error) {
    if (error instanceof RequestError) return error
    throw error
  }
}

/** One that another server made is taken: its views are made as if it did not say so. */
function asksForPartitions({ kind, id, deleted, body }: DocumentEdit): boolean {
  if (deleted || !isDesignId(id) || kind === 'replicated' || !body.includes('"partitioned"')) return false
  const members: unknown = JSON.parse(body.toString())
  return isObject(members) && isObject(members.options) && members.options.partitioned === true
}

function partitionedDesign(): RequestError {
  const reason = 'partitioned option cannot be true in a non-partitioned database.'
  return new RequestError('invalid', 'invalid_design_doc', reason)
}
