/**
 * Purges tombstones that are older than a retention. How old one is is known from marks: what the update sequence was at
 * some times since the retention was set, so the first ones go a retention after that. Indexes learn of it as of every
 * purge; a tombstone that a known replication has not seen stays.
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

const NONE: TombstoneProgress = { marks: [], through: 0 }

/** A mark is made when so much of the retention has passed: a tombstone stays for so much longer at most. */
const MARKS_A_RETENTION = 10

const TOMBSTONES_A_PURGE = 500

export async function purgeTombstones(
  database: Database,
  {
    retentionMs,
    nowMs,
    signal,
  }: { readonly retentionMs: number; readonly nowMs: number; readonly signal: AbortSignal },
): Promise<TombstonePass> {
  const { updateSequence, tombstones = NONE } = await database.latestState()
  const marks = withMark(tombstones.marks, updateSequence, { retentionMs, nowMs })
  const old = marks.findLast(([, timeMs]) => timeMs <= nowMs - retentionMs)?.[0] ?? 0
  const replicas = old > tombstones.through ? await knownReplicas(database) : []
  const heldBy = replicas.filter(({ sequence }) => sequence < old)
  const through = heldBy.reduce((least, { sequence }) => Math.min(least, sequence), old)
  let purged = 0
  for await (const request of oldTombstones(database, tombstones.through, through)) {
    signal.throwIfAborted()
    purged += (await database.purge(request)).purged.size
  }
  const next = { marks, through: Math.max(tombstones.through, through) }
  if (JSON.stringify(next) !== JSON.stringify(tombstones)) {
    await database.changeState((state) => ({ ...state, tombstones: next }))
  }
  return { purged, heldBy }
}

/** Of marks that are older than the retention the last one counts. One of a clock that was ahead counts from now on. */
function withMark(
  marks: TombstoneProgress['marks'],
  sequence: number,
  { retentionMs, nowMs }: { readonly retentionMs: number; readonly nowMs: number },
): TombstoneProgress['marks'] {
  const known = marks.map(([at, timeMs]) => [at, Math.min(timeMs, nowMs)] as const)
  const last = known.at(-1)
  const isDue = !last || (last[0] !== sequence && nowMs - last[1] >= retentionMs / MARKS_A_RETENTION)
  const all = isDue ? [...known, [sequence, nowMs] as const] : known
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
