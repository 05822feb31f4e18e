/** A labelled input with its hint and its error, and the choices that need no label of their own. */
import { type InputHTMLAttributes, type ReactNode, type Ref, type SelectHTMLAttributes, useId } from 'react'
import { Icon } from './icon.tsx'

interface FieldProperties extends InputHTMLAttributes<HTMLInputElement> {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
  readonly isMono?: boolean
  readonly ref?: Ref<HTMLInputElement>
}

export function Field({ label, hint, error, isMono = false, ...rest }: FieldProperties) {
  const id = useId()
  const told = [hint !== undefined && `${id}-hint`, error !== undefined && `${id}-error`].filter(Boolean).join(' ')
  return (
    <div className="field">
      <label className="field-label" htmlFor={id}>
        {label}
      </label>
      <input
        autoComplete="off"
        spellCheck={false}
        {...rest}
        id={id}
        className={`input${isMono ? ' input-mono' : ''}`}
        aria-invalid={error !== undefined}
        aria-describedby={told || undefined}
      />
      {hint !== undefined && (
        <span className="field-hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error !== undefined && (
        <span className="field-error" id={`${id}-error`} role="alert">
          {error}
        </span>
      )}
    </div>
  )
}

interface SelectProperties extends SelectHTMLAttributes<HTMLSelectElement> {
  readonly label: string
  readonly isLabelHidden?: boolean
  readonly options: readonly (readonly [value: string, label: string])[]
}

export function Select({ label, isLabelHidden = false, options, ...rest }: SelectProperties) {
  const id = useId()
  return (
    <div className="field">
      <label className={isLabelHidden ? 'visually-hidden' : 'field-label'} htmlFor={id}>
        {label}
      </label>
      <select {...rest} id={id} className="input">
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

interface CheckProperties extends Omit<InputHTMLAttributes<HTMLInputElement>, 'type'> {
  readonly label: string
}

export function Check({ label, ...rest }: CheckProperties) {
  return (
    <label className="check">
      <input {...rest} type="checkbox" />
      {label}
    </label>
  )
}

interface SearchProperties extends InputHTMLAttributes<HTMLInputElement> {
  readonly label: string
}

/** The search field of a screen, focused by `/`. */
export function SearchField({ label, ...rest }: SearchProperties) {
  return (
    <div className="search">
      <Icon name="search" />
      <input
        autoComplete="off"
        spellCheck={false}
        type="search"
        {...rest}
        className="input"
        aria-label={label}
        placeholder={rest.placeholder ?? label}
        data-search
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  )
}

interface SegmentsProperties<T extends string> {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [value: NoInfer<T>, label: string])[]
  onChange(value: NoInfer<T>): void
}

/** One of a few. */
export function Segments<T extends string>({ label, value, options, onChange }: SegmentsProperties<T>) {
  const move = (step: number) => {
    const at = options.findIndex(([option]) => option === value)
    const next = options[(at + step + options.length) % options.length]
    if (next) onChange(next[0])
  }
  return (
    <div
      className="segments"
      role="radiogroup"
      aria-label={label}
      onKeyDown={(event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
        if (step === undefined) return
        event.preventDefault()
        move(step)
        const buttons = event.currentTarget.querySelectorAll('button')
        const at = options.findIndex(([option]) => option === value)
        buttons[(at + step + options.length) % options.length]?.focus()
      }}
    >
      {options.map(([option, text]) => (
        <button
          key={option}
          type="button"
          role="radio"
          aria-checked={option === value}
          tabIndex={option === value ? 0 : -1}
          onClick={() => onChange(option)}
        >
          {text}
        </button>
      ))}
    </div>
  )
}
