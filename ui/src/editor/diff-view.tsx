/** Two texts side by side with their differences marked; one below the other if there is no room. */
import { MergeView, unifiedMergeView } from '@codemirror/merge'
import { EditorState, type Extension } from '@codemirror/state'
import { EditorView } from '@codemirror/view'
import { useEffect, useRef } from 'react'
import { commonExtensions } from './code-editor.tsx'

export interface DiffViewProperties {
  readonly before: string
  readonly after: string
  readonly beforeLabel: string
  readonly afterLabel: string
  /** Set if the right text can be edited, and parts of the left one copied to it. */
  onChange?(text: string): void
}

const NARROW_PX = 700

export function DiffView({ before, after, beforeLabel, afterLabel, onChange }: DiffViewProperties) {
  const host = useRef<HTMLDivElement>(null)
  const changed = useRef(onChange)
  changed.current = onChange
  const first = useRef(after)
  first.current = onChange ? first.current : after
  const canEdit = onChange !== undefined

  useEffect(() => {
    const element = host.current
    if (!element) return
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
    const named = (label: string): Extension =>
      EditorView.contentAttributes.of({ 'aria-label': label, role: 'textbox', tabindex: '0' })
    const fixed = [EditorState.readOnly.of(true)]
    const right: Extension[] = [
      ...commonExtensions('json'),
      named(afterLabel),
      ...(canEdit ? [] : fixed),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) changed.current?.(update.state.doc.toString())
      }),
    ]
    if (innerWidth < NARROW_PX) {
      const editor = new EditorView({
        root,
        parent: root,
        doc: first.current,
        extensions: [...right, unifiedMergeView({ original: before, mergeControls: canEdit })],
      })
      return () => editor.destroy()
    }
    const merge = new MergeView({
      root,
      parent: root,
      a: { doc: before, extensions: [...commonExtensions('json'), named(beforeLabel), ...fixed] },
      b: { doc: first.current, extensions: right },
      collapseUnchanged: { margin: 3, minSize: 6 },
      gutter: true,
      ...(canEdit && { revertControls: 'a-to-b' as const }),
    })
    return () => merge.destroy()
  }, [before, beforeLabel, afterLabel, canEdit])

  return (
    <div className="diff">
      <div className="diff-heads" aria-hidden="true">
        <span>{beforeLabel}</span>
        <span>{afterLabel}</span>
      </div>
      <div className="diff-body" ref={host} />
    </div>
  )
}
