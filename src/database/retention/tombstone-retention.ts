/**
 * Purges tombstones that are older than a retention. How old one is is known from marks: what the update sequence was at
 * some times since the retention was set, so the first ones go a retention after that. A clock that jumps makes no mark
 * older: only so much time counts as can have passed since the last check. Indexes learn of it as of every purge; a
 * tombstone that a known replication has not seen stays.
 */
import type { RevisionId } from '../../document/ids.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import type { Database } from '../database.ts'
import { decodeChange } from '../layout/change-row.ts'
import { changeKey, type TombstoneProgress } from '../layout/keys.ts'
import { type KnownReplica, knownReplicas } from './known-replicas.ts'

export interface TombstonePass {
  readonly purged: number
  /** Those that keep old tombstones from being purged. */
  readonly heldBy: readonly KnownReplica[]
}

export interface RetentionPass {
  readonly retentionMs: number
  readonly nowMs: number
  /** Between two checks. */
  readonly intervalMs: number
  readonly signal: AbortSignal
}

const NONE: TombstoneProgress = { marks: [], through: 0 }

/** A mark is made when so much of the retention has passed: a tombstone stays for so much longer at most. */
const MARKS_A_RETENTION = 10
/** A check may be late. */
const LATE_INTERVALS = 2

const TOMBSTONES_A_PURGE = 500

export async function purgeTombstones(database: Database, pass: RetentionPass): Promise<TombstonePass> {
  const { retentionMs, nowMs, signal } = pass
  const { updateSequence, tombstones = NONE } = await database.latestState()
  const { marks: known, checkedMs } = atClock(tombstones, pass)
  const marks = withMark(known, updateSequence, pass)
  const old = marks.findLast(([, timeMs]) => timeMs <= nowMs - retentionMs)?.[0] ?? 0
  const replicas = old > tombstones.through ? await knownReplicas(database) : []
  const heldBy = replicas.filter(({ sequence }) => sequence < old)
  const through = heldBy.reduce((least, { sequence }) => Math.min(least, sequence), old)
  let purged = 0
  for await (const request of oldTombstones(database, tombstones.through, through)) {
    signal.throwIfAborted()
    purged += (await database.purge(request)).purged.size
  }
  const next = { marks, through: Math.max(tombstones.through, through), checkedMs }
  if (JSON.stringify(next) !== JSON.stringify(tombstones)) {
    await database.changeState((state) => ({ ...state, tombstones: next }))
  }
  return { purged, heldBy }
}

/**
 * The marks by the clock as it is now. Where it was set, they are moved with it and keep their age. While the server was stopped
 * a part of the retention can pass; what goes beyond that counts as a jump too.
 */
function atClock(
  { marks, checkedMs = marks.at(-1)?.[1] }: TombstoneProgress,
  { retentionMs, nowMs, intervalMs }: RetentionPass,
): { readonly marks: TombstoneProgress['marks']; readonly checkedMs: number } {
  if (checkedMs === undefined) return { marks, checkedMs: nowMs }
  const partMs = retentionMs / MARKS_A_RETENTION
  const mostMs = Math.max(partMs, LATE_INTERVALS * intervalMs)
  const passedMs = nowMs - checkedMs
  // Clocks of several servers differ a little. And not every check is worth a commit.
  if (passedMs > -mostMs && passedMs < partMs) return { marks, checkedMs }
  const jumpMs = passedMs - Math.min(mostMs, Math.max(0, passedMs))
  return { marks: jumpMs === 0 ? marks : marks.map(([at, timeMs]) => [at, timeMs + jumpMs]), checkedMs: nowMs }
}

/** Of marks that are older than the retention the last one counts. */
function withMark(
  marks: TombstoneProgress['marks'],
  sequence: number,
  { retentionMs, nowMs }: RetentionPass,
): TombstoneProgress['marks'] {
  const last = marks.at(-1)
  const isDue = !last || (last[0] !== sequence && nowMs - last[1] >= retentionMs / MARKS_A_RETENTION)
  const all = isDue ? [...marks, [sequence, nowMs] as const] : marks
  const newestOld = all.findLastIndex(([, timeMs]) => timeMs <= nowMs - retentionMs)
  return newestOld > 0 ? all.slice(newestOld) : all
}

/** Documents whose last change is a deletion, of changes after one sequence and up to another, some at a time. */
async function* oldTombstones(
  database: Database,
  after: number,
  through: number,
): AsyncGenerator<Map<string, readonly RevisionId[]>> {
  let found = new Map<string, readonly RevisionId[]>()
  let rest: KeyRange | undefined =
    through > after ? { from: changeKey(after + 1), to: changeKey(through + 1) } : undefined
  while (rest) {
    using view = database.view()
    const page: Page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      const { id, leaves, deleted } = decodeChange(page.value(row))
      if (deleted) found.set(id, leaves)
    }
    rest = page.next
    view.release()
    if (found.size >= TOMBSTONES_A_PURGE || (!rest && found.size > 0)) {
      yield found
      found = new Map()
    }
  }
}
