/** One document: its text to edit, its attachments, its history and conflicts; beside the list it was chosen from. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type KeyboardEvent, useState } from 'react'
import { ApiError, TooLargeError } from '../api/client.ts'
import { copyDocument, deleteDocument, type LoadedDocument, loadDocument } from '../api/documents.ts'
import { Button } from '../parts/button.tsx'
import { Confirm, FormDialog } from '../parts/dialog.tsx'
import { Field } from '../parts/field.tsx'
import { bytesText, plural } from '../parts/figures.tsx'
import { ActionMenu } from '../parts/menu.tsx'
import { EmptyState, ErrorState, Skeleton } from '../parts/states.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { toast } from '../parts/toast.tsx'
import { go, link, useQueryValue } from '../shell/route.ts'
import { AttachmentsTab } from './document-attachments.tsx'
import { DocumentEditor } from './document-editor.tsx'
import { HistoryTab } from './document-history.tsx'

/** More is loaded only when asked for. */
const LIMIT_BYTES = 2 * 1024 * 1024

interface DocumentPaneProperties {
  readonly database: string
  /** Undefined for a new document. */
  readonly id: string | undefined
  onClose(): void
}

export function DocumentPane({ database, id, onClose }: DocumentPaneProperties) {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' || event.defaultPrevented || !event.currentTarget.contains(event.target as Node)) return
    onClose()
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape goes back one level from wherever the focus is.
    <div className="content-column" onKeyDown={onKeyDown}>
      {id === undefined ? (
        <NewDocument database={database} onClose={onClose} />
      ) : (
        <ExistingDocument database={database} id={id} onClose={onClose} />
      )}
    </div>
  )
}

function PaneHead({ title, onClose, children }: { title: string; onClose(): void; children?: React.ReactNode }) {
  return (
    <div className="pane-head">
      <Button className="phone-back" kind="quiet" icon="back" aria-label="Back to the list" onClick={onClose} />
      <h2 className="mono cut" title={title} style={{ flex: 1 }}>
        <bdi>{title}</bdi>
      </h2>
      {children}
      <Button kind="quiet" icon="close" aria-label="Close the document" onClick={onClose} />
    </div>
  )
}

function NewDocument({ database, onClose }: { database: string; onClose(): void }) {
  return (
    <>
      <PaneHead title="New document" onClose={onClose} />
      <DocumentEditor
        database={database}
        document={undefined}
        onSaved={({ id }) => go(link(['db', database, 'documents', id]))}
      />
    </>
  )
}

type Tab = 'edit' | 'attachments' | 'history'

function ExistingDocument({ database, id, onClose }: { database: string; id: string; onClose(): void }) {
  const [isLargeWanted, setLargeWanted] = useState(false)
  const query = useQuery({
    queryKey: ['document', database, id, isLargeWanted],
    queryFn: ({ signal }) => loadDocument(database, id, { signal, ...(!isLargeWanted && { limitBytes: LIMIT_BYTES }) }),
    retry: false,
    // A document being edited is not reloaded; saving detects a conflict.
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  })
  if (query.data) {
    return (
      <DocumentTabs database={database} document={query.data} onClose={onClose} onReload={() => void query.refetch()} />
    )
  }
  return (
    <>
      <PaneHead title={id} onClose={onClose} />
      {query.error instanceof TooLargeError ? (
        <EmptyState title="A large document" actions={<Button onClick={() => setLargeWanted(true)}>Load it</Button>}>
          It has more than {bytesText(LIMIT_BYTES)}.
        </EmptyState>
      ) : query.error instanceof ApiError && query.error.status === 404 ? (
        <MissingDocument database={database} id={id} reason={query.error.reason} />
      ) : query.error ? (
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Skeleton />
      )}
    </>
  )
}

function MissingDocument({ database, id, reason }: { database: string; id: string; reason: string }) {
  if (reason === 'deleted') {
    return (
      <div className="content">
        <div className="page">
          <div className="notice">
            <p>
              This document was deleted. Its history is still stored; saving a document with the same id restores it.
            </p>
          </div>
          <HistoryTab database={database} id={id} winner={undefined} onChanged={() => {}} />
        </div>
      </div>
    )
  }
  return (
    <EmptyState title="There is no such document">
      Nothing in {database} has the id “<bdi className="wrap-anywhere">{id}</bdi>”.
    </EmptyState>
  )
}

interface DocumentTabsProperties {
  readonly database: string
  readonly document: LoadedDocument
  onClose(): void
  onReload(): void
}

function DocumentTabs({ database, document, onClose, onReload }: DocumentTabsProperties) {
  const { id, rev, conflicts, attachments } = document
  const [tabText, setTab] = useQueryValue('tab', 'edit')
  const tab: Tab = tabText === 'attachments' || tabText === 'history' ? tabText : 'edit'
  const [dialog, setDialog] = useState<'delete' | 'clone'>()
  const queries = useQueryClient()
  const changed = async () => {
    onReload()
    await queries.invalidateQueries({ queryKey: ['documents', database] })
  }
  const tabs: readonly (readonly [Tab, string])[] = [
    ['edit', 'Edit'],
    ['attachments', attachments.length === 0 ? 'Attachments' : `Attachments ${attachments.length}`],
    ['history', 'History'],
  ]
  return (
    <>
      <PaneHead title={id} onClose={onClose}>
        {conflicts.length > 0 && (
          <button type="button" className="badge badge-warning" style={{ border: 0 }} onClick={() => setTab('history')}>
            {plural(conflicts.length, 'conflict')}
          </button>
        )}
        <ActionMenu
          trigger={<Button kind="quiet" icon="more" aria-label="Actions for this document" />}
          actions={[
            { label: 'Reload', run: onReload },
            { label: 'Clone…', run: () => setDialog('clone') },
            { label: 'Delete…', isDangerous: true, run: () => setDialog('delete') },
          ]}
        />
      </PaneHead>
      <div className="pane-tools">
        <Tabs label="Parts of the document" tabs={tabs} chosen={tab} onChoose={setTab} />
        <span className="tools-space" />
        <span className="mono muted cut" title={rev}>
          {shortRevision(rev)}
        </span>
      </div>
      {tab === 'edit' && (
        <DocumentEditor key={rev} database={database} document={document} onSaved={() => void changed()} />
      )}
      {tab === 'attachments' && (
        <AttachmentsTab database={database} document={document} onChanged={() => void changed()} />
      )}
      {tab === 'history' && (
        <div className="content">
          <div className="page">
            <HistoryTab database={database} id={id} winner={rev} onChanged={() => void changed()} />
          </div>
        </div>
      )}
      {dialog === 'delete' && (
        <Confirm
          title="Delete this document?"
          action="Delete document"
          onClose={() => setDialog(undefined)}
          onConfirm={async () => {
            await deleteDocument(database, id, rev)
            toast(`Document ${id} deleted.`)
            await queries.invalidateQueries({ queryKey: ['documents', database] })
            onClose()
          }}
        >
          <p className="wrap-anywhere">
            <code>{id}</code> becomes a deletion, which replicates.
            {conflicts.length > 0 && ' It has conflicts: one of them then takes its place.'}
          </p>
        </Confirm>
      )}
      {dialog === 'clone' && <CloneDialog database={database} id={id} onClose={() => setDialog(undefined)} />}
    </>
  )
}

export function shortRevision(rev: string): string {
  const at = rev.indexOf('-')
  return at < 0 ? rev : `${rev.slice(0, at)}-${rev.slice(at + 1, at + 9)}`
}

function CloneDialog({ database, id, onClose }: { database: string; id: string; onClose(): void }) {
  const [target, setTarget] = useState(`${id}-copy`)
  const queries = useQueryClient()
  return (
    <FormDialog
      title="Clone this document"
      action="Clone document"
      isReady={target !== '' && target !== id}
      onClose={onClose}
      onSubmit={async () => {
        await copyDocument(database, id, target)
        toast(`Cloned as ${target}.`)
        await queries.invalidateQueries({ queryKey: ['documents', database] })
        go(link(['db', database, 'documents', target]))
      }}
    >
      <Field
        label="Id of the clone"
        isMono
        autoFocus
        value={target}
        onChange={({ target: { value } }) => setTarget(value)}
      />
    </FormDialog>
  )
}
