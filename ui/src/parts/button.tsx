/** A button: plain, quiet, primary or dangerous. Its label is a verb. */
import type { ButtonHTMLAttributes, Ref } from 'react'
import { Icon, type IconName } from './icon.tsx'

interface ButtonProperties extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly kind?: 'plain' | 'quiet' | 'primary' | 'danger' | 'danger-strong'
  readonly icon?: IconName
  readonly ref?: Ref<HTMLButtonElement>
}

export function Button({ kind = 'plain', icon, children, className = '', ...rest }: ButtonProperties) {
  const shape = children === undefined ? ' button-icon' : ''
  return (
    <button type="button" {...rest} className={`button button-${kind}${shape} ${className}`}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}
