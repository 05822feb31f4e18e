/** The revision tree as a diagram, any two leaves side by side, and the resolution of conflicts. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { path, requestJson } from '../api/client.ts'
import { loadDocument } from '../api/documents.ts'
import { type Leaf, type Revision, type RevisionTree, revisionTree } from '../api/revisions.ts'
import { DiffView } from '../editor/lazy-editor.tsx'
import { formatJson, withMember, withoutMembers } from '../json/json-text.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { plural } from '../parts/figures.tsx'
import { JsonView } from '../parts/json-view.tsx'
import { ErrorState, Loaded, Skeleton } from '../parts/states.tsx'
import { toast, toastError } from '../parts/toast.tsx'

interface HistoryTabProperties {
  readonly database: string
  readonly id: string
  readonly winner: string | undefined
  onChanged(): void
}

export function HistoryTab({ database, id, winner, onChanged }: HistoryTabProperties) {
  const queries = useQueryClient()
  const query = useQuery({
    queryKey: ['revisions', database, id, winner],
    queryFn: () => revisionTree(database, id, winner),
    staleTime: 0,
  })
  const [shown, setShown] = useState<string>()
  const [compared, setCompared] = useState<Leaf>()
  const changed = async () => {
    setCompared(undefined)
    await queries.invalidateQueries({ queryKey: ['revisions', database, id] })
    onChanged()
  }
  return (
    <Loaded query={query}>
      {(tree) => {
        const best = tree.leaves.find(({ rev }) => rev === winner)
        const conflicts = tree.leaves.filter((leaf) => leaf !== best && !leaf.isDeleted)
        return (
          <>
            {conflicts.length > 0 && best && (
              <section className="section">
                <h2>{plural(conflicts.length, 'conflict')}</h2>
                <div className="card">
                  {conflicts.map((leaf) => (
                    <div className="attachment attachment-line" key={leaf.rev} style={{ display: 'flex' }}>
                      <span className="mono cut">{leaf.rev}</span>
                      <Button onClick={() => setCompared(leaf)}>Compare and resolve</Button>
                    </div>
                  ))}
                </div>
              </section>
            )}
            <section className="section">
              <h2>Revisions</h2>
              <TreePicture tree={tree} onShow={setShown} />
              <p className="muted">
                ● winner, conflict or deletion, said beside it · ○ stored · dashed: compaction took its body
                {tree.isCut && ' · the first 30 leaves'}
              </p>
            </section>
            {shown !== undefined && (
              <RevisionDialog database={database} id={id} rev={shown} onClose={() => setShown(undefined)} />
            )}
            {compared && best && (
              <ResolveDialog
                database={database}
                best={best}
                other={compared}
                onClose={() => setCompared(undefined)}
                onDone={() => void changed()}
              />
            )}
          </>
        )
      }}
    </Loaded>
  )
}

const ROW = 26
const LANE = 18
const WORDS = { winner: 'winner', conflict: 'conflict', deleted: 'deleted', available: '', missing: 'compacted away' }

/** The newest above; each leaf has a lane of its own until it meets another. */
function TreePicture({ tree, onShow }: { tree: RevisionTree; onShow(rev: string): void }) {
  const ordered = [...tree.revisions].sort((a, b) => b.generation - a.generation || (a.rev < b.rev ? 1 : -1))
  const lanes = lanesOf(tree)
  const at = new Map(ordered.map(({ rev }, row) => [rev, { x: 12 + (lanes.get(rev) ?? 0) * LANE, y: 14 + row * ROW }]))
  const left = 28 + Math.max(0, ...lanes.values()) * LANE
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: who scrolls by keyboard must be able to get here.
    <div className="tree" tabIndex={0} role="group" aria-label="Revision tree">
      <svg width={left + 400} height={ordered.length * ROW + 6} role="presentation">
        {ordered.map(({ rev, parent }) => {
          const from = at.get(rev)
          const to = parent === undefined ? undefined : at.get(parent)
          if (!from || !to) return null
          return <path key={rev} d={`M${from.x} ${from.y}V${to.y - 10}Q${from.x} ${to.y} ${to.x} ${to.y}`} />
        })}
        {ordered.map((revision) => {
          const place = at.get(revision.rev)
          return place && <Node key={revision.rev} revision={revision} place={place} left={left} onShow={onShow} />
        })}
      </svg>
    </div>
  )
}

interface NodeProperties {
  readonly revision: Revision
  readonly place: { x: number; y: number }
  readonly left: number
  onShow(rev: string): void
}

function Node({ revision, place, left, onShow }: NodeProperties) {
  const { rev, kind } = revision
  const words = WORDS[kind]
  const isThere = kind !== 'missing'
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it has a role where it can be opened.
    <g
      data-kind={kind}
      role={isThere ? 'button' : 'img'}
      tabIndex={isThere ? 0 : undefined}
      style={{ cursor: isThere ? 'pointer' : 'default' }}
      onClick={() => isThere && onShow(rev)}
      onKeyDown={({ key }) => isThere && key === 'Enter' && onShow(rev)}
    >
      <circle cx={place.x} cy={place.y} r={5} />
      <text x={left} y={place.y + 4}>
        {rev.length > 40 ? `${rev.slice(0, 40)}…` : rev}
      </text>
      {words !== '' && (
        <text className="tree-note" x={left + 290} y={place.y + 4}>
          {words}
        </text>
      )}
    </g>
  )
}

function lanesOf({ leaves, revisions }: RevisionTree): Map<string, number> {
  const rank = (leaf: Leaf) => (revisions.find(({ rev }) => rev === leaf.rev)?.kind === 'winner' ? 0 : 1)
  const lanes = new Map<string, number>()
  for (const [lane, { path: revs }] of [...leaves].sort((a, b) => rank(a) - rank(b)).entries()) {
    for (const rev of revs) {
      if (lanes.has(rev)) break
      lanes.set(rev, lane)
    }
  }
  return lanes
}

interface RevisionDialogProperties {
  readonly database: string
  readonly id: string
  readonly rev: string
  onClose(): void
}

function RevisionDialog({ database, id, rev, onClose }: RevisionDialogProperties) {
  const query = useQuery({
    queryKey: ['revision', database, id, rev],
    queryFn: () => loadDocument(database, id, { rev }),
    retry: false,
  })
  return (
    <Dialog title={`Revision ${rev}`} isWide onClose={onClose}>
      {query.data ? (
        <JsonView text={query.data.text} />
      ) : query.error ? (
        <ErrorState error={query.error} />
      ) : (
        <Skeleton />
      )}
    </Dialog>
  )
}

interface ResolveDialogProperties {
  readonly database: string
  readonly best: Leaf
  readonly other: Leaf
  onClose(): void
  onDone(): void
}

const bodyOf = ({ text }: Leaf) => formatJson(withoutMembers(text, ['_revisions']))

/** One leaf gets the merged body, the other is deleted: there is one conflict less. */
function ResolveDialog({ database, best, other, onClose, onDone }: ResolveDialogProperties) {
  const mine = bodyOf(best)
  const theirs = withMember(bodyOf(other), '_rev', JSON.stringify(best.rev))
  const [merged, setMerged] = useState(mine)
  const resolve = async (text: string) => {
    const id = JSON.stringify(JSON.parse(mine)._id)
    const kept = withMember(withMember(text, '_rev', JSON.stringify(best.rev)), '_id', id)
    const gone = `{"_id":${id},"_rev":${JSON.stringify(other.rev)},"_deleted":true}`
    try {
      const entries = await requestJson<{ error?: string; reason?: string }[]>(`${path(database)}/_bulk_docs`, {
        method: 'POST',
        jsonText: `{"docs":[${kept},${gone}]}`,
      })
      const failed = entries.find(({ error }) => error !== undefined)
      if (failed) throw new Error(failed.reason ?? failed.error)
      toast('The conflict is resolved.')
      onDone()
    } catch (error) {
      toastError('The conflict was not resolved.', error)
    }
  }
  return (
    <Dialog title="Resolve the conflict" isWide onClose={onClose}>
      <p className="muted">
        The right side is what stays, and can be edited; the arrows take parts over from the left. Afterwards the
        conflicting revision is a deletion.
      </p>
      <DiffView
        before={theirs}
        after={merged}
        beforeLabel={`Conflicting revision ${other.rev.slice(0, 12)}`}
        afterLabel={`Winner ${best.rev.slice(0, 12)}, to be edited`}
        onChange={setMerged}
      />
      <div className="actions actions-end">
        <Button onClick={onClose}>Cancel</Button>
        <Button onClick={() => void resolve(theirs)}>Keep the left one</Button>
        <Button kind="primary" onClick={() => void resolve(merged)}>
          Keep the right one
        </Button>
      </div>
    </Dialog>
  )
}
