/** How many documents a partition has, and what they take. All of its records are read: deleted ones are counted nowhere. */
import { partitionIds } from '../../document/partition.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import type { Database } from '../database.ts'
import { documentKey } from '../layout/keys.ts'
import { RecordReader } from '../layout/record-reader.ts'

export interface PartitionNumbers {
  readonly documentCount: number
  readonly deletedCount: number
  /** Of the bodies of winning revisions. */
  readonly bodyBytes: number
}

export async function partitionNumbers(database: Database, partition: string): Promise<PartitionNumbers> {
  const { first, last } = partitionIds(partition)
  const record = new RecordReader()
  const slice = new TimeSlice()
  let documentCount = 0
  let deletedCount = 0
  let bodyBytes = 0
  // Pages follow each other in any state: however large the partition is, no state is held for it.
  using view = database.lastingView()
  for (let rest: KeyRange | undefined = { from: documentKey(first), to: documentKey(last) }; rest; ) {
    const page: Page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      record.read(page.block, page.bounds[3 * row + 1]!)
      if (record.deleted) deletedCount++
      else documentCount++
      bodyBytes += record.bodyBytes
    }
    rest = page.next
    if (slice.isOverNow) await slice.pause()
  }
  return { documentCount, deletedCount, bodyBytes }
}
