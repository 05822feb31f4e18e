/** A list on the left and what is chosen on the right; the list stays. On a phone one after the other. */
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef } from 'react'
import { useRemembered } from './remembered.ts'

interface SplitPaneProperties {
  readonly list: ReactNode
  /** Undefined if the list takes the whole width. */
  readonly detail: ReactNode | undefined
}

const STEP_PERCENT = 4
const USUAL_PERCENT = 46

export function SplitPane({ list, detail }: SplitPaneProperties) {
  const frame = useRef<HTMLDivElement>(null)
  const [percent, setPercent] = useRemembered('pane', USUAL_PERCENT)
  if (detail === undefined) return <div className="content-column">{list}</div>
  const set = (wanted: number) => setPercent(Math.max(25, Math.min(75, wanted)))
  const start = (event: PointerEvent<HTMLDivElement>) => {
    const handle = event.currentTarget
    handle.setPointerCapture(event.pointerId)
    const move = ({ clientX }: globalThis.PointerEvent) => {
      const box = frame.current?.getBoundingClientRect()
      if (box) set(((box.right - clientX) / box.width) * 100)
    }
    handle.addEventListener('pointermove', move)
    handle.addEventListener('lostpointercapture', () => handle.removeEventListener('pointermove', move), { once: true })
  }
  const onKeyDown = ({ key }: KeyboardEvent) => {
    if (key === 'ArrowLeft') set(percent + STEP_PERCENT)
    if (key === 'ArrowRight') set(percent - STEP_PERCENT)
  }
  return (
    <div className="split" data-open="true" ref={frame} style={{ '--pane': `${percent}%` }}>
      <div className="content-column">{list}</div>
      <aside className="pane" aria-label="Details">
        <div
          className="pane-handle"
          role="separator"
          aria-orientation="vertical"
          aria-label="Width of the details"
          aria-valuenow={Math.round(percent)}
          tabIndex={0}
          onPointerDown={start}
          onKeyDown={onKeyDown}
        />
        {detail}
      </aside>
    </div>
  )
}
