/** A menu of actions behind a button, and one of columns to choose. */
import { DropdownMenu } from 'radix-ui'
import type { ReactNode } from 'react'
import { Icon, type IconName } from './icon.tsx'

export interface MenuAction {
  readonly label: string
  readonly icon?: IconName
  readonly isDangerous?: boolean
  readonly isDisabled?: boolean
  run(): void
}

export function ActionMenu({ trigger, actions }: { trigger: ReactNode; actions: readonly MenuAction[] }) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4} collisionPadding={8}>
          {actions.map(({ label, icon, isDangerous, isDisabled = false, run }) => (
            <DropdownMenu.Item
              key={label}
              className={`menu-item${isDangerous ? ' menu-item-danger' : ''}`}
              disabled={isDisabled}
              onSelect={run}
            >
              {icon && <Icon name={icon} />}
              {label}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

interface ChoiceMenuProperties {
  readonly trigger: ReactNode
  readonly label: string
  readonly options: readonly string[]
  readonly chosen: readonly string[]
  onChange(chosen: string[]): void
}

/** Stays open while several are chosen. */
export function ChoiceMenu({ trigger, label, options, chosen, onChange }: ChoiceMenuProperties) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4} collisionPadding={8}>
          <DropdownMenu.Label className="menu-label">{label}</DropdownMenu.Label>
          {options.map((option) => (
            <DropdownMenu.CheckboxItem
              key={option}
              className="menu-item mono"
              checked={chosen.includes(option)}
              onSelect={(event) => event.preventDefault()}
              onCheckedChange={(isChosen) =>
                onChange(isChosen ? [...chosen, option] : chosen.filter((other) => other !== option))
              }
            >
              <span className="menu-mark">
                <DropdownMenu.ItemIndicator>
                  <Icon name="check" />
                </DropdownMenu.ItemIndicator>
              </span>
              {option}
            </DropdownMenu.CheckboxItem>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}
