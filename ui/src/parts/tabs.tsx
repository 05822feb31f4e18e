/** A list of tabs of which one is chosen. Arrow keys move between them, as screen readers announce it. */
import type { KeyboardEvent } from 'react'

interface TabsProperties<Name extends string> {
  readonly label: string
  readonly tabs: readonly (readonly [name: Name, label: string])[]
  readonly chosen: string
  readonly onChoose: (name: Name) => void
}

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 }

export function Tabs<Name extends string>({ label, tabs, chosen, onChoose }: TabsProperties<Name>) {
  function moveFocus({ key, currentTarget }: KeyboardEvent<HTMLDivElement>) {
    const step = STEPS[key]
    if (step === undefined) return
    const index = (tabs.findIndex(([name]) => name === chosen) + step + tabs.length) % tabs.length
    onChoose(tabs[index]![0])
    currentTarget.querySelectorAll('button')[index]?.focus()
  }
  return (
    <div className="tabs" role="tablist" aria-label={label} onKeyDown={moveFocus}>
      {tabs.map(([name, text]) => (
        <button
          key={name}
          type="button"
          role="tab"
          className="tab"
          aria-selected={chosen === name}
          tabIndex={chosen === name ? 0 : -1}
          onClick={() => onChoose(name)}
        >
          {text}
        </button>
      ))}
    </div>
  )
}
