/** Design documents with their functions on the left; on the right the rows of a view, or the source of a function. */
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Design, type DesignFunction, listDesigns } from '../api/designs.ts'
import { Button } from '../parts/button.tsx'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { DatabasePlace } from '../shell/place.tsx'
import { link, useQueryValue } from '../shell/route.ts'
import { FunctionEditor } from './function-editor.tsx'
import { NewFunctionDialog } from './new-function.tsx'
import { ViewResults } from './view-results.tsx'

interface ViewsScreenProperties {
  readonly database: string
  readonly design: string | undefined
  readonly kind: string | undefined
  readonly name: string | undefined
}

export function ViewsScreen({ database, design, kind, name }: ViewsScreenProperties) {
  const [isCreating, setCreating] = useState(false)
  const query = useQuery({ queryKey: ['designs', database], queryFn: () => listDesigns(database) })
  return (
    <>
      <DatabasePlace database={database}>
        <Button icon="plus" onClick={() => setCreating(true)}>
          New function
        </Button>
      </DatabasePlace>
      <Loaded query={query}>
        {(designs) => {
          if (designs.length === 0) {
            return (
              <EmptyState
                title="No views yet"
                actions={
                  <Button kind="primary" onClick={() => setCreating(true)}>
                    Create the first one
                  </Button>
                }
              >
                A view is an index that a map function makes of the documents. Views live in design documents.
              </EmptyState>
            )
          }
          const chosenDesign = designs.find((one) => one.name === design)
          const chosen = chosenDesign?.functions.find((one) => one.kind === kind && one.name === name)
          return (
            <div className="two-panes">
              <FunctionList database={database} designs={designs} chosen={chosen} chosenDesign={chosenDesign} />
              <div className="content-column">
                {chosen && chosenDesign ? (
                  <FunctionPane
                    key={`${chosenDesign.name}/${chosen.kind}/${chosen.name}`}
                    database={database}
                    design={chosenDesign}
                    chosen={chosen}
                  />
                ) : (
                  <EmptyState title="Choose a function">Its rows, or its source, appear here.</EmptyState>
                )}
              </div>
            </div>
          )
        }}
      </Loaded>
      {isCreating && (
        <NewFunctionDialog database={database} designs={query.data ?? []} onClose={() => setCreating(false)} />
      )}
    </>
  )
}

const KIND_WORDS: Readonly<Record<DesignFunction['kind'], string>> = {
  views: 'view',
  filters: 'filter',
  updates: 'update',
  shows: 'show',
  lists: 'list',
  validate_doc_update: 'validation',
}

interface FunctionListProperties {
  readonly database: string
  readonly designs: readonly Design[]
  readonly chosen: DesignFunction | undefined
  readonly chosenDesign: Design | undefined
}

function FunctionList({ database, designs, chosen, chosenDesign }: FunctionListProperties) {
  return (
    <nav className="list-pane" aria-label="Design documents">
      {designs.map((design) => (
        <section key={design.name}>
          <h2 className="cut" title={`_design/${design.name}`}>
            <a href={link(['db', database, 'documents', `_design/${design.name}`])}>_design/{design.name}</a>
          </h2>
          {design.functions.map((one) => (
            <a
              key={`${one.kind}/${one.name}`}
              className="list-item"
              href={link(['db', database, 'views', design.name, one.kind, one.name])}
              aria-current={chosenDesign === design && chosen === one ? 'page' : undefined}
            >
              <span className="cut" style={{ flex: 1 }}>
                {one.name}
              </span>
              <span className="badge">{KIND_WORDS[one.kind]}</span>
            </a>
          ))}
        </section>
      ))}
    </nav>
  )
}

const VIEW_TABS = [
  ['rows', 'Rows'],
  ['source', 'Source'],
] as const

interface FunctionPaneProperties {
  readonly database: string
  readonly design: Design
  readonly chosen: DesignFunction
}

function FunctionPane({ database, design, chosen }: FunctionPaneProperties) {
  const isView = chosen.kind === 'views'
  const [tab, setTab] = useQueryValue('tab', isView ? 'rows' : 'source')
  return (
    <>
      <div className="tools">
        <h2 className="cut mono" style={{ flex: 1 }}>
          {design.name}/{chosen.name}
        </h2>
        {isView && <Tabs label="Parts of the view" tabs={VIEW_TABS} chosen={tab} onChoose={setTab} />}
      </div>
      {tab === 'source' && design.language === 'query' ? (
        <EmptyState title="An index for selector queries">
          It indexes fields instead of a function. Queries choose it automatically; a new one is created under Query.
        </EmptyState>
      ) : tab === 'source' ? (
        <FunctionEditor key={design.rev} database={database} design={design} chosen={chosen} />
      ) : (
        <ViewResults database={database} design={design} chosen={chosen} />
      )}
    </>
  )
}
