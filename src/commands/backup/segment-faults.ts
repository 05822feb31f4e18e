/** Compares a segment with the manifest that lists it, and with the segment before it. */
import type { SectionCheck } from '../../backup/section-check.ts'
import type { Chain, Segment } from './chain.ts'

/** Empty where the segment matches the manifest. */
export function segmentFaults(chain: Chain, segment: Segment, { head, position, end }: SectionCheck): string[] {
  const before = chain.segments[chain.segments.indexOf(segment) - 1]
  const faults: string[] = []
  if (segment.complete && !end) faults.push("Its frame 'end' is missing.")
  if (head.uuid !== chain.database?.uuid) faults.push('It is from another database than the manifest says.')
  if (head.since !== segment.since || position !== segment.until)
    faults.push('Its sequences differ from those in the manifest.')
  if (head.since !== (before?.until ?? 0)) faults.push('It does not continue where the segment before it ends.')
  if (before && head.since > 0 && head.purge_since !== before.purge_until) faults.push('Purges are missing before it.')
  return faults
}
