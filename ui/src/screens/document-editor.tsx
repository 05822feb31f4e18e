/**
 * The text of a document. What is saved is the text itself, so numbers keep their digits. Before saving, what changed
 * is shown; after a conflict both versions are shown, with a button for each resolution.
 */
import { useState } from 'react'
import { isConflict, type LoadedDocument, loadDocument, saveDocument, type Written } from '../api/documents.ts'
import { CodeEditor, DiffView } from '../editor/lazy-editor.tsx'
import { formatJson, jsonError, memberText, stringOf, withMember, withoutMembers } from '../json/json-text.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Segments } from '../parts/field.tsx'
import { toast, toastError } from '../parts/toast.tsx'

interface DocumentEditorProperties {
  readonly database: string
  readonly document: LoadedDocument | undefined
  /** The text of a new document. */
  readonly template?: string
  onSaved(written: Written): void
}

const EMPTY = '{\n  "_id": ""\n}'

export function DocumentEditor({ database, document, template = EMPTY, onSaved }: DocumentEditorProperties) {
  const [base] = useState(() => (document ? formatJson(document.text) : template))
  const [text, setText] = useState(base)
  const [step, setStep] = useState<'review' | { theirs: LoadedDocument }>()
  const [isBusy, setBusy] = useState(false)
  const problem = problemOf(text)
  const isChanged = document === undefined || text !== base

  const save = async (saved: string) => {
    setBusy(true)
    try {
      const written = await saveDocument(database, document?.id ?? idIn(saved), withoutEmptyId(saved))
      setStep(undefined)
      toast(`Saved as revision ${written.rev.split('-')[0]}.`)
      onSaved(written)
    } catch (error) {
      const id = document?.id ?? idIn(saved)
      if (isConflict(error) && id !== undefined) {
        await showTheirs(id)
      } else toastError('The document was not saved.', error)
    } finally {
      setBusy(false)
    }
  }
  const showTheirs = async (id: string) => {
    try {
      setStep({ theirs: await loadDocument(database, id) })
    } catch (error) {
      setStep(undefined)
      toastError('The document was changed by somebody else in the meantime, and could not be loaded.', error)
    }
  }
  const ask = () => {
    if (problem !== undefined || !isChanged || isBusy) return
    if (document) setStep('review')
    else void save(text)
  }

  return (
    <>
      <CodeEditor
        label={document ? `Document ${document.id}` : 'New document'}
        language="json"
        value={text}
        hasFocus={document === undefined}
        onChange={setText}
        onSave={ask}
      />
      <div className="foot" style={{ minHeight: 44 }}>
        <span className={problem === undefined ? 'muted cut' : 'field-error cut'} role="status">
          {problem ?? (isChanged ? (document ? 'Changed' : 'Not saved yet') : 'As stored')}
        </span>
        <span className="tools-space" />
        {document && isChanged && (
          <Button kind="quiet" onClick={() => setText(base)}>
            Discard
          </Button>
        )}
        <Button kind="primary" disabled={problem !== undefined || !isChanged || isBusy} onClick={ask}>
          {document ? 'Review and save' : 'Create document'}
        </Button>
      </div>
      {step === 'review' && (
        <Dialog title="Review the changes" isWide onClose={() => setStep(undefined)}>
          <DiffView before={base} after={text} beforeLabel="As stored" afterLabel="As it will be" />
          <div className="actions actions-end">
            <Button onClick={() => setStep(undefined)}>Continue editing</Button>
            <Button kind="primary" autoFocus disabled={isBusy} onClick={() => void save(text)}>
              Save document
            </Button>
          </div>
        </Dialog>
      )}
      {typeof step === 'object' && (
        <ConflictDialog
          base={base}
          mine={text}
          theirs={step.theirs}
          isBusy={isBusy}
          onClose={() => setStep(undefined)}
          onTakeTheirs={() => {
            setStep(undefined)
            onSaved({ id: step.theirs.id, rev: step.theirs.rev })
          }}
          onSave={(merged) => void save(withMember(merged, '_rev', JSON.stringify(step.theirs.rev)))}
        />
      )}
    </>
  )
}

interface ConflictDialogProperties {
  readonly base: string
  readonly mine: string
  readonly theirs: LoadedDocument
  readonly isBusy: boolean
  onClose(): void
  onTakeTheirs(): void
  onSave(text: string): void
}

function ConflictDialog({ base, mine, theirs, isBusy, onClose, onTakeTheirs, onSave }: ConflictDialogProperties) {
  const theirText = formatJson(theirs.text)
  const [merged, setMerged] = useState(() => withMember(mine, '_rev', JSON.stringify(theirs.rev)))
  const [side, setSide] = useState<'theirs' | 'base'>('theirs')
  const problem = jsonError(merged)
  return (
    <Dialog title="This document was changed by somebody else" isWide onClose={onClose}>
      <p className="muted">
        The right side is yours and can be edited; the arrows take a part over from the left. Saving makes it the next
        revision after theirs, so nothing of the history is lost.
      </p>
      <Segments
        label="Compare yours with"
        value={side}
        options={[
          ['theirs', `Their version, ${theirs.rev.split('-')[0]}`],
          ['base', 'Version you started from'],
        ]}
        onChange={setSide}
      />
      <DiffView
        key={side}
        before={side === 'theirs' ? theirText : base}
        after={merged}
        beforeLabel={side === 'theirs' ? 'Theirs' : 'Version you started from'}
        afterLabel="Yours"
        onChange={setMerged}
      />
      {problem !== undefined && <p className="field-error">{problem}</p>}
      <div className="actions actions-end">
        <Button onClick={onClose}>Continue editing</Button>
        <Button onClick={onTakeTheirs}>Take theirs</Button>
        <Button kind="primary" disabled={isBusy || problem !== undefined} onClick={() => onSave(merged)}>
          Overwrite with mine
        </Button>
      </div>
    </Dialog>
  )
}

function problemOf(text: string): string | undefined {
  const problem = jsonError(text)
  if (problem !== undefined) return problem
  return text.trimStart().startsWith('{') ? undefined : 'A document must be a JSON object.'
}

function idIn(text: string): string | undefined {
  return stringOf(memberText(text, '_id')) || undefined
}

/** Without an id the server generates one. */
function withoutEmptyId(text: string): string {
  return stringOf(memberText(text, '_id')) === '' ? withoutMembers(text, ['_id']) : text
}
