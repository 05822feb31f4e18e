/** The source of a function of a design document. Views are run on real documents while they are edited. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useDeferredValue, useEffect, useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { databaseInformation } from '../api/databases.ts'
import { type Design, type DesignFunction, saveDesign, sourceOf, withSource } from '../api/designs.ts'
import { type TrialLine, tryLog, tryView } from '../api/view-query.ts'
import { CodeEditor } from '../editor/lazy-editor.tsx'
import { Button } from '../parts/button.tsx'
import { Select } from '../parts/field.tsx'
import { plural } from '../parts/figures.tsx'
import { toast, toastError } from '../parts/toast.tsx'
import { RowTable } from './view-results.tsx'

interface FunctionEditorProperties {
  readonly database: string
  readonly design: Design
  readonly chosen: DesignFunction
}

const BUILT_IN = ['_sum', '_count', '_stats', '_approx_count_distinct']
/** In larger databases a trial takes as long as an index build, so it runs on demand. */
const TRIED_BY_ITSELF = 2_000
const TYPING_MS = 500
const TRIED_ROWS = 20
const TRIED_LINES = 50

export function FunctionEditor({ database, design, chosen }: FunctionEditorProperties) {
  const stored = sourceOf(design, chosen)
  const [map, setMap] = useState(stored.map)
  const [reduce, setReduce] = useState(stored.reduce)
  const queries = useQueryClient()
  const isView = chosen.kind === 'views'
  const isChanged = map !== stored.map || reduce !== stored.reduce
  const save = async () => {
    try {
      await saveDesign(database, design.name, withSource(design.text, chosen, { map, reduce }))
      toast(`${design.name}/${chosen.name} saved.`)
      await queries.invalidateQueries({ queryKey: ['designs', database] })
    } catch (error) {
      toastError('The function was not saved.', error)
    }
  }
  const isCustom = reduce !== '' && !BUILT_IN.includes(reduce)
  return (
    <>
      <div className="content">
        <div className="page">
          <section className="section">
            <h3>{isView ? 'Map' : 'Function'}</h3>
            <div className="editor-box">
              <CodeEditor
                label={isView ? 'Map function' : `Function ${chosen.name}`}
                language="javascript"
                value={map}
                words={['doc', 'emit', 'function']}
                onChange={setMap}
                onSave={() => void save()}
              />
            </div>
          </section>
          {isView && (
            <section className="section">
              <div style={{ width: 240 }}>
                <Select
                  label="Reduce"
                  value={isCustom ? 'custom' : reduce}
                  options={[['', 'none'], ...BUILT_IN.map((name) => [name, name] as const), ['custom', 'a function']]}
                  onChange={({ target }) => setReduce(target.value === 'custom' ? CUSTOM : target.value)}
                />
              </div>
              {isCustom && (
                <div className="editor-box">
                  <CodeEditor label="Reduce function" language="javascript" value={reduce} onChange={setReduce} />
                </div>
              )}
            </section>
          )}
          {isView && <Trial database={database} map={map} reduce={reduce} />}
        </div>
      </div>
      <div className="foot" style={{ minHeight: 44 }}>
        <span>{isChanged ? 'Changed. Saving rebuilds the index.' : 'As stored'}</span>
        <span className="tools-space" />
        <Button kind="primary" disabled={!isChanged} onClick={() => void save()}>
          Save function
        </Button>
      </div>
    </>
  )
}

const CUSTOM = 'function (keys, values, rereduce) {\n  return sum(values)\n}'

function Trial({ database, map, reduce }: { database: string; map: string; reduce: string }) {
  const [isWanted, setWanted] = useState(false)
  const [isReduced, setReduced] = useState(false)
  const information = useQuery({ queryKey: ['database', database], queryFn: () => databaseInformation(database) })
  const documents = information.data?.doc_count ?? Number.POSITIVE_INFINITY
  const isSmall = documents <= TRIED_BY_ITSELF
  const source = useDeferredValue(usePaused(JSON.stringify({ map, reduce: isReduced ? reduce : '' })))
  const trial = useQuery({
    queryKey: ['trial', database, source],
    queryFn: ({ signal }) =>
      tryView(
        database,
        JSON.parse(source),
        { limit: TRIED_ROWS, ...(isReduced && reduce !== '' && { group: true }) },
        signal,
      ),
    enabled: isSmall || isWanted,
    retry: false,
    refetchOnWindowFocus: false,
  })
  const lines = useQuery({
    queryKey: ['trial log', database, JSON.parse(source).map],
    queryFn: ({ signal }) => tryLog(database, JSON.parse(source).map, TRIED_LINES, signal),
    // Logs are requested only if the function compiles.
    enabled: trial.isSuccess,
    retry: false,
    refetchOnWindowFocus: false,
  })
  return (
    <section className="section">
      <div className="actions">
        <h3 style={{ flex: 1 }}>Result for your documents</h3>
        {reduce !== '' && (
          <Button aria-pressed={isReduced} onClick={() => setReduced(!isReduced)}>
            {isReduced ? 'Show map rows' : 'Show reduction'}
          </Button>
        )}
        {!isSmall && !isWanted && (
          <Button onClick={() => setWanted(true)}>Try it on {plural(documents, 'document')}</Button>
        )}
      </div>
      {trial.error ? (
        <div className="notice notice-danger" role="alert">
          <p className="wrap-anywhere">{sentenceOf(trial.error)}</p>
        </div>
      ) : trial.data && trial.data.rows.length > 0 ? (
        <div className="card" style={{ height: 240, display: 'flex' }}>
          <RowTable database={database} rows={trial.data.rows} name="trial" />
        </div>
      ) : (
        <p className="muted">{trial.data ? 'No rows.' : isSmall || isWanted ? 'Trying…' : 'Not tried yet.'}</p>
      )}
      {trial.data && trial.data.rows.length > 0 && <p className="muted">The first {TRIED_ROWS} rows at most.</p>}
      {trial.isSuccess && lines.data && lines.data.length > 0 && <TrialLines lines={lines.data} />}
    </section>
  )
}

/** The `log()` lines and errors of the function. */
function TrialLines({ lines }: { lines: readonly TrialLine[] }) {
  return (
    <>
      <h3>Logs and errors</h3>
      <ul className="trial-lines card" aria-label="Logs and errors">
        {lines.map(({ kind, id, text }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no names, and are replaced together.
          <li key={index}>
            <span className={kind === 'error' ? 'badge badge-danger' : 'badge'}>
              {kind === 'error' ? 'threw' : 'log'}
            </span>
            <span className="trial-line-text">{text}</span>
            <span className="muted cut" title={id}>
              {id}
            </span>
          </li>
        ))}
      </ul>
      {lines.length === TRIED_LINES && <p className="muted">The first {TRIED_LINES} lines.</p>}
    </>
  )
}

/** The value once it has not changed for a moment. */
function usePaused(value: string): string {
  const [paused, setPaused] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setPaused(value), TYPING_MS)
    return () => clearTimeout(timer)
  }, [value])
  return paused
}
