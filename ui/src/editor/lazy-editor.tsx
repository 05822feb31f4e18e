/** The editor and the comparison, loaded when one of them is needed for the first time. */
import { lazy, Suspense } from 'react'
import { Skeleton } from '../parts/states.tsx'
import type { CodeEditorProperties } from './code-editor.tsx'
import type { DiffViewProperties } from './diff-view.tsx'

const LazyEditor = lazy(async () => ({ default: (await import('./code-editor.tsx')).CodeEditor }))
const LazyDiff = lazy(async () => ({ default: (await import('./diff-view.tsx')).DiffView }))

export function CodeEditor(properties: CodeEditorProperties) {
  return (
    <Suspense fallback={<Skeleton rows={8} />}>
      <LazyEditor {...properties} />
    </Suspense>
  )
}

export function DiffView(properties: DiffViewProperties) {
  return (
    <Suspense fallback={<Skeleton rows={8} />}>
      <LazyDiff {...properties} />
    </Suspense>
  )
}
