/** Keys that work everywhere but in fields: `/` searches, `g` and a letter goes to a part, Ctrl-K goes anywhere. */
import { useEffect } from 'react'
import { go, link } from './route.ts'
import { PARTS } from './side-bar.tsx'

const CHORD_MS = 1_200

export function useKeyboard(onPalette: () => void): void {
  useEffect(() => {
    let chordUntilMs = 0
    const onKeyDown = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        onPalette()
        return
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event)) return
      if (performance.now() < chordUntilMs) {
        chordUntilMs = 0
        const part = PARTS.find(({ keys }) => keys === `g ${event.key}`)
        if (part) go(link(part.at))
      } else if (event.key === 'g') chordUntilMs = performance.now() + CHORD_MS
      else if (event.key === '/') focusOn(event, '[data-search]')
      else if (event.key === 'e') focusOn(event, '[data-editor]')
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [onPalette])
}

function focusOn(event: KeyboardEvent, selector: string): void {
  const found = document.querySelector<HTMLElement>(selector)
  const target = found?.shadowRoot?.querySelector<HTMLElement>('.cm-content') ?? found
  if (!target) return
  event.preventDefault()
  target.focus()
}

function isTyping(event: KeyboardEvent): boolean {
  const [target] = event.composedPath()
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)
}
