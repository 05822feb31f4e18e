/** Which commits of a group may be applied, one after the other, to the state of a version. */
import type { Changes, CommitOutcome } from '../store.ts'

export interface Judgement {
  readonly outcomes: CommitOutcome[]
  readonly accepted: Changes[]
  /** After all that are accepted. */
  readonly version: number
}

export function judge(group: readonly Changes[], before: number): Judgement {
  let version = before
  const accepted: Changes[] = []
  const outcomes = group.map((changes): CommitOutcome => {
    if (changes.expected !== undefined && changes.expected !== version) return { outcome: 'stale', version }
    accepted.push(changes)
    if (!changes.unreferenced) version++
    return { outcome: 'committed', version }
  })
  return { outcomes, accepted, version }
}
