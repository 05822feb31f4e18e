/** A new view or filter, in an existing design document or in a new one. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { type Design, type FunctionKind, saveDesign, withSource } from '../api/designs.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { Field, Select } from '../parts/field.tsx'
import { toast } from '../parts/toast.tsx'
import { go, link } from '../shell/route.ts'

const TEMPLATES: Readonly<Record<string, string>> = {
  views: 'function (doc) {\n  emit(doc._id, null)\n}',
  filters: 'function (doc, req) {\n  return true\n}',
  validate_doc_update:
    "function (newDoc, oldDoc, userCtx, secObj) {\n  if (!newDoc.type) throw { forbidden: 'A document needs a type.' }\n}",
  updates: "function (doc, req) {\n  return [doc, 'done']\n}",
}

const KINDS: readonly (readonly [FunctionKind, string])[] = [
  ['views', 'View'],
  ['filters', 'Filter of changes'],
  ['updates', 'Update'],
  ['validate_doc_update', 'Validation'],
]

interface NewFunctionDialogProperties {
  readonly database: string
  readonly designs: readonly Design[]
  onClose(): void
}

export function NewFunctionDialog({ database, designs, onClose }: NewFunctionDialogProperties) {
  const [kind, setKind] = useState<FunctionKind>('views')
  const [design, setDesign] = useState(designs[0]?.name ?? '')
  const [given, setGiven] = useState('')
  const queries = useQueryClient()
  const name = kind === 'validate_doc_update' ? kind : given
  const existing = designs.find((one) => one.name === design)
  const isTaken = existing?.functions.some((one) => one.kind === kind && one.name === name) ?? false
  return (
    <FormDialog
      title="New function"
      action="Create function"
      isReady={design !== '' && name !== '' && !isTaken}
      onClose={onClose}
      onSubmit={async () => {
        const text = existing?.text ?? JSON.stringify({ _id: `_design/${design}`, language: 'javascript' })
        const one = { kind, name, hasReduce: false }
        await saveDesign(database, design, withSource(text, one, { map: TEMPLATES[kind] ?? '', reduce: '' }))
        toast(`${design}/${name} created.`)
        await queries.invalidateQueries({ queryKey: ['designs', database] })
        go(link(['db', database, 'views', design, kind, name], { tab: 'source' }))
      }}
    >
      <Select
        label="Kind"
        value={kind}
        options={KINDS}
        onChange={({ target }) => setKind(KINDS.find(([value]) => value === target.value)?.[0] ?? 'views')}
      />
      <Field
        label="Design document"
        isMono
        autoFocus
        value={design}
        hint={existing ? 'It exists; the function is added to it.' : design === '' ? undefined : 'It will be created.'}
        onChange={({ target }) => setDesign(target.value.replace(/^_design\//, ''))}
      />
      {kind !== 'validate_doc_update' && (
        <Field
          label="Name of the function"
          isMono
          value={given}
          error={isTaken ? 'A function of this name exists.' : undefined}
          onChange={({ target }) => setGiven(target.value)}
        />
      )}
    </FormDialog>
  )
}
