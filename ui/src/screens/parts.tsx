/** All components on one page, for development: `#/parts`. */
import { useState } from 'react'
import { Button } from '../parts/button.tsx'
import { Confirm } from '../parts/dialog.tsx'
import { Check, Field, SearchField, Segments, Select } from '../parts/field.tsx'
import { Bytes, Progress, RelativeTime, Sparkline } from '../parts/figures.tsx'
import { JsonView } from '../parts/json-view.tsx'
import { ActionMenu } from '../parts/menu.tsx'
import { EmptyState, ErrorState, Skeleton } from '../parts/states.tsx'
import { Table } from '../parts/table.tsx'
import { toast, toastError } from '../parts/toast.tsx'
import { Place } from '../shell/place.tsx'

const ROWS = Array.from({ length: 500 }, (_, index) => ({ name: `row ${index}`, size: index * 1_234 }))

export function PartsScreen() {
  const [side, setSide] = useState<'one' | 'two'>('one')
  const [isAsking, setAsking] = useState(false)
  return (
    <>
      <Place title="Parts" />
      <div className="content">
        <div className="page">
          <div className="actions">
            {(['plain', 'quiet', 'primary', 'danger', 'danger-strong'] as const).map((kind) => (
              <Button key={kind} kind={kind}>
                {kind}
              </Button>
            ))}
            <Button disabled>disabled</Button>
            <Button icon="plus" aria-label="Add" />
            <ActionMenu trigger={<Button>Menu</Button>} actions={[{ label: 'Do it', run: () => toast('Done.') }]} />
            <Button onClick={() => toastError('It failed.', new Error('For this reason.'))}>Error</Button>
            <Button onClick={() => setAsking(true)}>Ask</Button>
          </div>
          <div className="actions">
            {['', 'good', 'warning', 'danger', 'accent'].map((kind) => (
              <span key={kind} className={`badge badge-${kind}`}>
                {kind || 'badge'}
              </span>
            ))}
            <Bytes value={123_456_789} /> <RelativeTime timeMs={Date.now() - 90_000} />
          </div>
          <div className="form-row">
            <Field label="Field" hint="A hint." defaultValue="text" />
            <Field label="Wrong" error="What is wrong." defaultValue="text" />
            <Select
              label="Choice"
              options={[
                ['a', 'One'],
                ['b', 'Two'],
              ]}
            />
          </div>
          <div className="actions">
            <SearchField label="Search" />
            <Segments
              label="Side"
              value={side}
              options={[
                ['one', 'One'],
                ['two', 'Two'],
              ]}
              onChange={setSide}
            />
            <Check label="Check" defaultChecked />
          </div>
          <Progress value={0.4} label="Progress" />
          <Sparkline values={[1, 4, 2, 8, 5, 7, 3]} label="Sparkline" />
          <JsonView text='{"text":"value","number":12345678901234567890,"word":true,"none":null}' />
          <div className="card" style={{ height: 240, display: 'flex' }}>
            <Table
              label="Rows"
              name="parts"
              rows={ROWS}
              keyOf={({ name }) => name}
              columns={[
                { id: 'name', label: 'Name', cell: ({ name }) => name },
                { id: 'size', label: 'Size', isNumber: true, cell: ({ size }) => <Bytes value={size} /> },
              ]}
            />
          </div>
          <Skeleton rows={3} />
          <EmptyState title="Empty">What to do first.</EmptyState>
          <ErrorState error={new Error('What the server said.')} onRetry={() => {}} />
        </div>
      </div>
      {isAsking && (
        <Confirm
          title="Delete it?"
          action="Delete it"
          name="it"
          onClose={() => setAsking(false)}
          onConfirm={async () => {}}
        >
          <p>What is lost.</p>
        </Confirm>
      )}
    </>
  )
}
