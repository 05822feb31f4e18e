/** A database as a whole: its information, compaction with the space it would free, import and export, and deletion. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useId, useRef, useState } from 'react'
import { path, requestJson, requestText, sentenceOf } from '../api/client.ts'
import { type DatabaseInformation, databaseInformation } from '../api/databases.ts'
import { every } from '../api/polling.ts'
import { useSession } from '../api/session.ts'
import { exportLines, type ImportState, importLines } from '../api/transfer.ts'
import { Button } from '../parts/button.tsx'
import { Field } from '../parts/field.tsx'
import { bytesText, count, Progress, plural } from '../parts/figures.tsx'
import { Loaded } from '../parts/states.tsx'
import { toast, toastError } from '../parts/toast.tsx'
import { DatabasePlace } from '../shell/place.tsx'
import { DeleteDialog } from './databases.tsx'

export function DatabaseSettingsScreen({ database }: { database: string }) {
  const { isAdmin } = useSession()
  const [isDeleting, setDeleting] = useState(false)
  const query = useQuery({
    queryKey: ['database', database],
    queryFn: () => databaseInformation(database),
    refetchInterval: every(3_000),
  })
  return (
    <>
      <DatabasePlace database={database} />
      <div className="content">
        <div className="page">
          <Loaded query={query}>
            {(information) => (
              <>
                <Facts information={information} />
                <Compaction database={database} information={information} />
                <RevisionLimit database={database} />
                <Export database={database} total={information.doc_count} />
                <Import database={database} />
              </>
            )}
          </Loaded>
          {isAdmin && (
            <Section title="Delete this database" about="All of its documents and indexes. This cannot be undone.">
              <Button kind="danger" onClick={() => setDeleting(true)}>
                Delete {database}…
              </Button>
            </Section>
          )}
        </div>
      </div>
      {isDeleting && <DeleteDialog name={database} onClose={() => setDeleting(false)} />}
    </>
  )
}

function Section({ title, about, children }: { title: string; about: ReactNode; children: ReactNode }) {
  return (
    <section className="section">
      <h2>{title}</h2>
      <p className="muted">{about}</p>
      <div>{children}</div>
    </section>
  )
}

function Facts({ information }: { information: DatabaseInformation }) {
  const facts = [
    ['Documents', count(information.doc_count)],
    ['Deleted', count(information.doc_del_count)],
    ['Update sequence', String(information.update_seq).split('-')[0]],
    ['Data', bytesText(information.data_size)],
    ['On disk', bytesText(information.disk_size)],
  ] as const
  return (
    <dl className="facts">
      {facts.map(([label, value]) => (
        <div className="fact" key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

function Compaction({ database, information }: { database: string; information: DatabaseInformation }) {
  const queries = useQueryClient()
  const { disk_size, data_size, compact_running } = information
  const freed = Math.max(0, disk_size - data_size)
  const compact = async () => {
    try {
      await requestText(`${path(database)}/_compact`, { method: 'POST' })
      toast('The database is being compacted.')
      await queries.invalidateQueries({ queryKey: ['database', database] })
    } catch (error) {
      toastError('Compaction could not be started.', error)
    }
  }
  return (
    <Section
      title="Compaction"
      about={`Removes the bodies of old revisions. It would free up to ${bytesText(freed)} of ${bytesText(disk_size)}; the database stays in use.`}
    >
      <Button disabled={compact_running} onClick={() => void compact()}>
        {compact_running ? 'Compacting…' : 'Compact now'}
      </Button>
    </Section>
  )
}

function RevisionLimit({ database }: { database: string }) {
  const query = useQuery({
    queryKey: ['revision limit', database],
    queryFn: () => requestJson<number>(`${path(database)}/_revs_limit`),
  })
  const [typed, setTyped] = useState<string>()
  const value = typed ?? String(query.data ?? '')
  const save = async () => {
    try {
      await requestText(`${path(database)}/_revs_limit`, { method: 'PUT', jsonText: value })
      toast('The limit is saved.')
      setTyped(undefined)
      await query.refetch()
    } catch (error) {
      toastError('The limit was not saved.', error)
    }
  }
  return (
    <Section
      title="Revisions"
      about="How many revisions of a document are remembered, by their ids, even after compaction."
    >
      <form
        className="form-row"
        style={{ maxWidth: 320 }}
        onSubmit={(event) => {
          event.preventDefault()
          void save()
        }}
      >
        <Field label="Limit" type="number" min={1} value={value} onChange={({ target }) => setTyped(target.value)} />
        <Button type="submit" disabled={typed === undefined || Number(value) < 1}>
          Save limit
        </Button>
      </form>
    </Section>
  )
}

function Export({ database, total }: { database: string; total: number }) {
  const [done, setDone] = useState<number>()
  const abort = useRef<AbortController>(undefined)
  const run = async () => {
    const controller = new AbortController()
    abort.current = controller
    const parts: Blob[] = []
    let documents = 0
    try {
      setDone(0)
      for await (const { text, count: some } of exportLines(database, controller.signal)) {
        parts.push(new Blob([text]))
        documents += some
        setDone(documents)
      }
      save(new Blob(parts, { type: 'application/x-ndjson' }), `${database.replaceAll('/', '_')}.jsonl`)
      toast(`${plural(documents, 'document')} exported.`)
    } catch (error) {
      if (!controller.signal.aborted) toastError('The export failed.', error)
    } finally {
      setDone(undefined)
    }
  }
  return (
    <Section
      title="Export"
      about="Every document as one line of JSON, with the digits it has. Attachments are not in it."
    >
      {done === undefined ? (
        <Button onClick={() => void run()}>Export {plural(total, 'document')}</Button>
      ) : (
        <Running
          words={`${count(done)} of ${count(total)}`}
          share={done / Math.max(total, 1)}
          onStop={() => abort.current?.abort()}
        />
      )}
    </Section>
  )
}

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob)
  const anchor = document.createElement('a')
  anchor.href = url
  anchor.download = name
  anchor.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

function Running({ words, share, onStop }: { words: string; share: number; onStop(): void }) {
  return (
    <div className="form">
      <div className="actions">
        <span role="status">{words}</span>
        <Button onClick={onStop}>Stop</Button>
      </div>
      <Progress value={share} label={words} />
    </div>
  )
}

function Import({ database }: { database: string }) {
  const [state, setState] = useState<ImportState & { file: File; isOver: boolean }>()
  const abort = useRef<AbortController>(undefined)
  const inputId = useId()
  const queries = useQueryClient()
  const run = async (file: File) => {
    const controller = new AbortController()
    abort.current = controller
    setState({ file, doneBytes: 0, written: 0, failures: [], isOver: false })
    try {
      for await (const next of importLines(database, file, controller.signal))
        setState({ ...next, file, isOver: false })
    } catch (error) {
      if (!controller.signal.aborted) toastError('The import failed.', sentenceOf(error))
    } finally {
      setState((last) => last && { ...last, isOver: true })
      await queries.invalidateQueries({ queryKey: ['documents', database] })
    }
  }
  return (
    <Section
      title="Import"
      about="A file with one document a line, as an export gives it. Documents that are here already are left alone and told."
    >
      {state && !state.isOver ? (
        <Running
          words={`${plural(state.written, 'document')} written`}
          share={state.doneBytes / Math.max(state.file.size, 1)}
          onStop={() => abort.current?.abort()}
        />
      ) : (
        <>
          <label className="button button-plain" htmlFor={inputId}>
            Choose a file
          </label>
          <input
            id={inputId}
            className="visually-hidden"
            type="file"
            accept=".jsonl,.ndjson,.json,application/x-ndjson"
            onChange={({ target }) => {
              const [file] = target.files ?? []
              if (file) void run(file)
              target.value = ''
            }}
          />
        </>
      )}
      {state?.isOver && (
        <div role="status" style={{ marginTop: 12 }}>
          <p>
            {plural(state.written, 'document')} written from {state.file.name}
            {state.failures.length > 0 ? `, ${plural(state.failures.length, 'was', 'were')} refused:` : '.'}
          </p>
          {state.failures.length > 0 && (
            <ul className="code" style={{ maxHeight: 160 }}>
              {state.failures.map((failure) => (
                <li key={failure}>{failure}</li>
              ))}
            </ul>
          )}
        </div>
      )}
    </Section>
  )
}
