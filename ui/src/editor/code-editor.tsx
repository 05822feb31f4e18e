/**
 * The editor for JSON and JavaScript. It lives in a shadow root: there the styles of CodeMirror are constructed sheets,
 * which the content policy allows, and nothing of the page reaches in. Tab leaves it, as it leaves any field.
 */
import { autocompletion, type CompletionSource, closeBrackets, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { javascript } from '@codemirror/lang-javascript'
import { json, jsonLanguage, jsonParseLinter } from '@codemirror/lang-json'
import { bracketMatching, foldGutter, foldKeymap, indentOnInput } from '@codemirror/language'
import { linter } from '@codemirror/lint'
import { searchKeymap } from '@codemirror/search'
import { EditorState, type Extension } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { useEffect, useRef } from 'react'
import { editorTheme } from './editor-theme.ts'

export interface CodeEditorProperties {
  readonly label: string
  readonly value: string
  readonly language: 'json' | 'javascript'
  readonly isReadOnly?: boolean
  readonly hasFocus?: boolean
  /** Words to complete. */
  readonly words?: readonly string[]
  onChange?(value: string): void
  /** Of Ctrl-S and Ctrl-Enter. */
  onSave?(): void
}

export function CodeEditor(properties: CodeEditorProperties) {
  const { label, value, language, isReadOnly = false, hasFocus = false } = properties
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const latest = useRef(properties)
  latest.current = properties
  const first = useRef({ value, hasFocus })
  const told = useRef<string[]>([])

  useEffect(() => {
    const element = host.current
    if (!element) return
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: first.current.value,
        extensions: [
          ...commonExtensions(language),
          EditorState.readOnly.of(isReadOnly),
          EditorView.contentAttributes.of({
            'aria-label': label,
            role: 'textbox',
            'aria-multiline': 'true',
            tabindex: '0',
          }),
          autocompletion({ override: [completeWords(() => latest.current.words ?? [])] }),
          keymap.of([
            { key: 'Mod-s', preventDefault: true, run: () => saved(latest.current.onSave) },
            { key: 'Mod-Enter', run: () => saved(latest.current.onSave) },
          ]),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return
            const text = update.state.doc.toString()
            told.current.push(text)
            latest.current.onChange?.(text)
          }),
        ],
      }),
    })
    view.current = editor
    if (first.current.hasFocus) editor.focus()
    return () => editor.destroy()
  }, [language, isReadOnly, label])

  // A value from outside replaces the text. A value that was reported from here is an echo, maybe outdated.
  useEffect(() => {
    const editor = view.current
    const echo = told.current.indexOf(value)
    if (echo >= 0) {
      told.current = told.current.slice(echo + 1)
      return
    }
    if (!editor || editor.state.doc.toString() === value) return
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } })
    told.current = []
  }, [value])

  return <div className="editor-host" ref={host} data-editor />
}

function saved(onSave: (() => void) | undefined): boolean {
  onSave?.()
  return onSave !== undefined
}

export function commonExtensions(language: 'json' | 'javascript'): Extension[] {
  return [
    lineNumbers(),
    foldGutter(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    EditorView.lineWrapping,
    ...(language === 'json' ? [json(), linter(jsonParseLinter(), { delay: 300 })] : [javascript()]),
    keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap]),
    ...editorTheme,
  ]
}

function completeWords(words: () => readonly string[]): CompletionSource {
  return (context) => {
    const word = context.matchBefore(/[\w$.]+/)
    if (!word && !context.explicit) return null
    const options = words().map((label) => ({ label, type: 'property' }))
    return options.length === 0 ? null : { from: word?.from ?? context.pos, options }
  }
}

export { jsonLanguage }
