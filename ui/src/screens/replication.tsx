/** Replications: start, progress, errors, stop. */

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { every } from '../api/polling.ts'
import {
  cancelReplication,
  keepReplication,
  listReplications,
  type Replication,
  replicateNow,
} from '../api/replications.ts'
import { useSession } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { Confirm, Dialog, FormDialog } from '../parts/dialog.tsx'
import { Check, Field, Select } from '../parts/field.tsx'
import { count, plural, RelativeTime } from '../parts/figures.tsx'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { Table } from '../parts/table.tsx'
import { toast } from '../parts/toast.tsx'
import { Place } from '../shell/place.tsx'
import { link } from '../shell/route.ts'
import { listOf } from './users.tsx'

export function ReplicationScreen() {
  const [isCreating, setCreating] = useState(false)
  const [opened, setOpened] = useState<string>()
  const query = useQuery({ queryKey: ['replications'], queryFn: listReplications, refetchInterval: every(3_000) })
  const open = query.data?.find(({ key }) => key === opened)
  return (
    <>
      <Place title="Replication" />
      <div className="tools">
        <span className="muted">Copies the changes of one database to another, once or continuously.</span>
        <span className="tools-space" />
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          New replication
        </Button>
      </div>
      <Loaded query={query}>
        {(replications) =>
          replications.length === 0 ? (
            <EmptyState
              title="No replications"
              actions={<Button onClick={() => setCreating(true)}>Start the first one</Button>}
            >
              Both databases may be here, or one of them on another CouchDB-compatible server.
            </EmptyState>
          ) : (
            <>
              <Table
                label="Replications"
                name="replications"
                rows={replications}
                keyOf={({ key }) => key}
                onOpen={({ key }) => setOpened(key)}
                columns={[
                  { id: 'source', label: 'From', isMono: true, cell: ({ source }) => withoutSecrets(source) },
                  { id: 'target', label: 'To', isMono: true, cell: ({ target }) => withoutSecrets(target) },
                  { id: 'state', label: 'State', width: 110, cell: ({ state }) => <State state={state} /> },
                  {
                    id: 'written',
                    label: 'Written',
                    isNumber: true,
                    width: 90,
                    isHiddenOnPhone: true,
                    cell: ({ written }) => (written === undefined ? '—' : count(written)),
                  },
                  {
                    id: 'failure',
                    label: 'Last error',
                    isHiddenOnPhone: true,
                    cell: ({ failure }) => failure ?? <span className="muted">—</span>,
                  },
                ]}
              />
              <div className="foot">{plural(replications.length, 'replication')}</div>
            </>
          )
        }
      </Loaded>
      {isCreating && <NewDialog onClose={() => setCreating(false)} />}
      {open && <ReplicationDialog replication={open} onClose={() => setOpened(undefined)} />}
    </>
  )
}

const KINDS: Readonly<Record<string, string>> = {
  running: 'badge-good',
  completed: 'badge-good',
  crashing: 'badge-danger',
  failed: 'badge-danger',
  error: 'badge-danger',
}

function State({ state }: { state: string }) {
  return <span className={`badge ${KINDS[state] ?? ''}`}>{state}</span>
}

/** Passwords in URLs are not shown. */
function withoutSecrets(address: string): string {
  return address.replace(/\/\/[^/@]*@/, '//')
}

function ReplicationDialog({ replication, onClose }: { replication: Replication; onClose(): void }) {
  const [isCancelling, setCancelling] = useState(false)
  const queries = useQueryClient()
  const { source, target, state, failure, written, pending, sinceMs, document, history } = replication
  if (isCancelling) {
    return (
      <Confirm
        title="Stop this replication?"
        action="Stop replication"
        onClose={() => setCancelling(false)}
        onConfirm={async () => {
          await cancelReplication(replication)
          toast('The replication was stopped.')
          await queries.invalidateQueries({ queryKey: ['replications'] })
          onClose()
        }}
      >
        <p>What was copied stays. {document && 'Its document is deleted, so it does not start again.'}</p>
      </Confirm>
    )
  }
  return (
    <Dialog title={`${withoutSecrets(source)} → ${withoutSecrets(target)}`} onClose={onClose}>
      <div className="actions">
        <State state={state} />
        {sinceMs !== undefined && (
          <span className="muted">
            since <RelativeTime timeMs={sinceMs} />
          </span>
        )}
      </div>
      {failure !== undefined && (
        <div className="notice notice-danger">
          <p className="wrap-anywhere">{failure}</p>
        </div>
      )}
      <p>
        {written === undefined ? 'Nothing was counted yet.' : `${plural(written, 'document')} written.`}{' '}
        {pending !== undefined && `${plural(pending, 'change')} to go.`}
      </p>
      {history.length > 0 && (
        <div className="card">
          {history.slice(0, 10).map(({ timestamp, type, reason }) => (
            <div className="attachment" key={`${timestamp} ${type}`}>
              <div className="attachment-line">
                <span style={{ flex: 1 }}>{type}</span>
                <span className="muted">{timestamp}</span>
              </div>
              {reason !== undefined && <span className="wrap-anywhere">{reason}</span>}
            </div>
          ))}
        </div>
      )}
      <div className="actions actions-end">
        {document && <a href={link(['db', document.database, 'documents', document.id])}>Its document</a>}
        <Button kind="danger" onClick={() => setCancelling(true)}>
          Stop replication…
        </Button>
      </div>
    </Dialog>
  )
}

type Kind = 'once' | 'continuous' | 'kept'

const HINTS: Readonly<Record<Kind, string>> = {
  once: 'Copies everything once, then ends.',
  continuous: 'Also copies later changes, until the server stops.',
  kept: 'Stored as a document of _replicator: continues after restarts.',
}

function NewDialog({ onClose }: { onClose(): void }) {
  const { name } = useSession()
  const [source, setSource] = useState('')
  const [target, setTarget] = useState('')
  const [kind, setKind] = useState<Kind>('once')
  const [isCreated, setCreated] = useState(false)
  const [filter, setFilter] = useState('')
  const [ids, setIds] = useState('')
  const queries = useQueryClient()
  return (
    <FormDialog
      title="New replication"
      action={kind === 'once' ? 'Replicate now' : 'Start replication'}
      isReady={source !== '' && target !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const wanted = {
          source,
          target,
          continuous: kind !== 'once',
          create_target: isCreated,
          filter,
          doc_ids: listOf(ids),
        }
        if (kind === 'kept') {
          await keepReplication(wanted, name)
          toast('The replication is stored in _replicator.')
        } else {
          const { history } = await replicateNow(wanted)
          const written = history?.[0]?.docs_written ?? 0
          toast(kind === 'once' ? `Done: ${plural(written, 'document')} written.` : 'The replication has started.')
        }
        await queries.invalidateQueries({ queryKey: ['replications'] })
      }}
    >
      <Field
        label="From"
        isMono
        autoFocus
        value={source}
        placeholder="recipes, or https://other.example/recipes"
        onChange={({ target: { value } }) => setSource(value)}
      />
      <Field
        label="To"
        isMono
        value={target}
        placeholder="recipes-copy"
        onChange={({ target: { value } }) => setTarget(value)}
      />
      <Select
        label="Mode"
        value={kind}
        options={[
          ['once', 'Once'],
          ['continuous', 'Continuous'],
          ['kept', 'Continuous and persistent'],
        ]}
        onChange={({ target: { value } }) => setKind(value === 'kept' || value === 'continuous' ? value : 'once')}
      />
      <p className="muted">{HINTS[kind]}</p>
      <Check
        label="Create the target"
        checked={isCreated}
        onChange={({ target: { checked } }) => setCreated(checked)}
      />
      <div className="form-row">
        <Field
          label="Filter function"
          isMono
          value={filter}
          placeholder="design/filter"
          onChange={({ target: { value } }) => setFilter(value)}
        />
        <Field
          label="Document ids"
          isMono
          value={ids}
          placeholder="a, b, c"
          onChange={({ target: { value } }) => setIds(value)}
        />
      </div>
    </FormDialog>
  )
}
