/** Dialogs that ask for confirmation. Focus stays inside and returns to where it was. */
import { Dialog as Primitive } from 'radix-ui'
import { type FormEvent, type ReactNode, useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { Button } from './button.tsx'
import { Field } from './field.tsx'

interface DialogProperties {
  readonly title: string
  readonly isWide?: boolean
  readonly children: ReactNode
  onClose(): void
}

export function Dialog({ title, isWide = false, children, onClose }: DialogProperties) {
  return (
    <Primitive.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Primitive.Portal>
        <Primitive.Overlay className="veil" />
        <Primitive.Content className={`dialog${isWide ? ' dialog-wide' : ''}`} aria-describedby={undefined}>
          <div className="dialog-head">
            <Primitive.Title asChild>
              <h2 className="cut">{title}</h2>
            </Primitive.Title>
            <Primitive.Close asChild>
              <Button kind="quiet" icon="close" aria-label="Close" />
            </Primitive.Close>
          </div>
          <div className="dialog-body">{children}</div>
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  )
}

interface FormDialogProperties {
  readonly title: string
  readonly action: string
  readonly isDangerous?: boolean
  readonly isReady?: boolean
  readonly children: ReactNode
  onClose(): void
  /** Closes when it is done; errors are shown. */
  onSubmit(): Promise<void>
}

export function FormDialog({
  title,
  action,
  isDangerous = false,
  isReady = true,
  children,
  onClose,
  onSubmit,
}: FormDialogProperties) {
  const [failure, setFailure] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    if (!isReady || isBusy) return
    setBusy(true)
    setFailure(undefined)
    try {
      await onSubmit()
      onClose()
    } catch (error) {
      setFailure(sentenceOf(error))
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {children}
        {failure !== undefined && (
          <div className="notice notice-danger" role="alert">
            <p className="wrap-anywhere">{failure}</p>
          </div>
        )}
        <div className="actions actions-end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind={isDangerous ? 'danger-strong' : 'primary'} disabled={!isReady || isBusy}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

interface ConfirmProperties {
  readonly title: string
  readonly action: string
  readonly children: ReactNode
  /** The text that must be typed to confirm; undefined if a click is enough. */
  readonly name?: string
  onClose(): void
  onConfirm(): Promise<void>
}

/** Says what is destroyed and, for large deletions, asks to type its name. */
export function Confirm({ title, action, children, name, onClose, onConfirm }: ConfirmProperties) {
  const [typed, setTyped] = useState('')
  return (
    <FormDialog
      title={title}
      action={action}
      isDangerous
      isReady={name === undefined || typed === name}
      onClose={onClose}
      onSubmit={onConfirm}
    >
      <div>{children}</div>
      {name !== undefined && (
        <Field
          label={`Type ${name} to confirm`}
          value={typed}
          isMono
          autoFocus
          onChange={({ target }) => setTyped(target.value)}
        />
      )}
    </FormDialog>
  )
}
