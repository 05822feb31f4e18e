/** Holds a segment that was read through against the manifest that lists it, and against the segment before it. */
import type { SectionCheck } from '../../backup/section-check.ts'
import type { Chain, Segment } from './chain.ts'

/** Empty where it is what the manifest says. */
export function segmentFaults(chain: Chain, segment: Segment, { head, position, end }: SectionCheck): string[] {
  const before = chain.segments[chain.segments.indexOf(segment) - 1]
  const faults: string[] = []
  if (segment.complete && !end) faults.push("Its frame 'end' is missing.")
  if (head.uuid !== chain.database?.uuid) faults.push('It is of another database than the manifest says.')
  if (head.since !== segment.since || position !== segment.until)
    faults.push('Its sequences are not those of the manifest.')
  if (head.since !== (before?.until ?? 0)) faults.push('It does not go on where the segment before it ends.')
  if (before && head.since > 0 && head.purge_since !== before.purge_until) faults.push('Purges are missing before it.')
  return faults
}
