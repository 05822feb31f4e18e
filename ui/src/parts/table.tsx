/**
 * The one table: rows of 32 px of which only the visible ones are there, columns that can be resized and sorted, a row
 * that can be opened by a click or by the keyboard, and rows that can be checked. Widths are remembered.
 */
import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from 'react'
import { useIsPhone } from './phone.ts'
import { useRemembered } from './remembered.ts'

export interface Column<Row> {
  readonly id: string
  readonly label: string
  readonly isNumber?: boolean
  readonly isMono?: boolean
  /** For screen readers only. */
  readonly isLabelHidden?: boolean
  /** The initial width of a column; columns without one share the rest. */
  readonly width?: number
  readonly isHiddenOnPhone?: boolean
  readonly canSort?: boolean
  cell(row: Row): ReactNode
}

export interface Sort {
  readonly column: string
  readonly isDescending: boolean
}

interface TableProperties<Row> {
  /** What the table lists, for screen readers. */
  readonly label: string
  /** Under which its widths are remembered. */
  readonly name: string
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  readonly sort?: Sort
  readonly openKey?: string | undefined
  readonly checked?: ReadonlySet<string>
  keyOf(row: Row): string
  onOpen?(row: Row): void
  onSort?(sort: Sort): void
  onCheck?(keys: ReadonlySet<string>): void
}

const ROW_PX = 32
const NARROWEST_PX = 60

export function Table<Row>(properties: TableProperties<Row>) {
  const { label, name, rows, sort, openKey, checked, keyOf, onOpen, onSort, onCheck } = properties
  const isPhone = useIsPhone()
  const columns = properties.columns.filter(({ isHiddenOnPhone }) => !isPhone || !isHiddenOnPhone)
  const frame = useRef<HTMLDivElement>(null)
  const [widths, setWidths] = useRemembered<Readonly<Record<string, number>>>(`widths.${name}`, {})
  const [focusIndex, setFocusIndex] = useState(0)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    // Before the first measurement, and without a layout, some rows are rendered all the same.
    initialRect: { width: 800, height: 640 },
  })
  const shown = virtual.getVirtualItems()
  const before = shown[0]?.start ?? 0
  const after = virtual.getTotalSize() - (shown.at(-1)?.end ?? 0)
  const span = columns.length + (checked ? 1 : 0)
  const tabStop = Math.min(focusIndex, rows.length - 1)

  const focusRow = (index: number) => {
    const target = Math.max(0, Math.min(rows.length - 1, index))
    setFocusIndex(target)
    virtual.scrollToIndex(target)
    const row = () => frame.current?.querySelector<HTMLElement>(`[data-row="${target}"]`)
    // A row that is not rendered yet is rendered first.
    if (row()) row()?.focus({ preventScroll: true })
    else requestAnimationFrame(() => row()?.focus({ preventScroll: true }))
  }
  const onKeyDown = (event: KeyboardEvent<HTMLTableRowElement>, row: Row, index: number) => {
    if (event.target !== event.currentTarget || event.metaKey || event.ctrlKey || event.altKey) return
    const page = Math.floor((frame.current?.clientHeight ?? 320) / ROW_PX) - 1
    const to = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      PageDown: index + page,
      PageUp: index - page,
      Home: 0,
      End: rows.length - 1,
    }[event.key]
    if (to !== undefined) focusRow(to)
    else if (event.key === 'Enter' && onOpen) onOpen(row)
    else if (event.key === ' ' && checked) toggle(keyOf(row))
    else return
    event.preventDefault()
  }
  const toggle = (key: string) => {
    const next = new Set(checked)
    if (!next.delete(key)) next.add(key)
    onCheck?.(next)
  }
  const isAllChecked = checked !== undefined && rows.length > 0 && rows.every((row) => checked.has(keyOf(row)))

  return (
    <div className="table-frame" ref={frame}>
      <table className="table table-fixed" aria-label={label} aria-rowcount={rows.length + 1}>
        <colgroup>
          {checked && <col style={{ width: 36 }} />}
          {columns.map(({ id, width }) => (
            <col key={id} style={{ width: widths[id] ?? width }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {checked && (
              <th className="cell-check" scope="col">
                <input
                  type="checkbox"
                  aria-label="Select all rows of this page"
                  checked={isAllChecked}
                  onChange={() => onCheck?.(new Set(isAllChecked ? [] : rows.map(keyOf)))}
                />
              </th>
            )}
            {columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                className={classOf(column)}
                aria-sort={sort?.column === column.id ? (sort.isDescending ? 'descending' : 'ascending') : undefined}
              >
                {column.canSort && onSort ? (
                  <button
                    type="button"
                    onClick={() =>
                      onSort({
                        column: column.id,
                        isDescending: sort?.column === column.id ? !sort.isDescending : column.isNumber === true,
                      })
                    }
                  >
                    {column.label}
                    {sort?.column === column.id ? (sort.isDescending ? ' ↓' : ' ↑') : ''}
                  </button>
                ) : (
                  <span className={column.isLabelHidden ? 'visually-hidden' : 'cut'}>{column.label}</span>
                )}
                <ColumnHandle onResize={(width) => setWidths({ ...widths, [column.id]: width })} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <Space height={before} span={span} />}
          {shown.map(({ index }) => {
            const row = rows[index]
            if (row === undefined) return null
            const key = keyOf(row)
            return (
              <tr
                key={key}
                data-row={index}
                data-opens={onOpen ? true : undefined}
                aria-rowindex={index + 2}
                aria-selected={onOpen || checked ? key === openKey || checked?.has(key) === true : undefined}
                tabIndex={index === tabStop ? 0 : -1}
                onFocus={() => setFocusIndex(index)}
                onClick={onOpen && ((event) => isControl(event.target) || onOpen(row))}
                onKeyDown={(event) => onKeyDown(event, row, index)}
              >
                {checked && (
                  <td className="cell-check">
                    <input
                      type="checkbox"
                      aria-label={`Select ${key}`}
                      tabIndex={-1}
                      checked={checked.has(key)}
                      onChange={() => toggle(key)}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.id} className={classOf(column)}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            )
          })}
          {after > 0 && <Space height={after} span={span} />}
        </tbody>
      </table>
    </div>
  )
}

/** Whether a click in a row is for a control in it, or in a menu that the row opened, and does not open the row. */
function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest('a, button, input, [role="menu"], .cell-check') !== null
}

function classOf<Row>({ isNumber, isMono }: Column<Row>): string | undefined {
  const names = [isNumber && 'number', isMono && 'mono'].filter(Boolean)
  return names.length === 0 ? undefined : names.join(' ')
}

function Space({ height, span }: { height: number; span: number }) {
  return (
    <tr className="table-space" aria-hidden="true">
      <td colSpan={span} style={{ height }} />
    </tr>
  )
}

/** The right edge of a column header, for resizing. */
function ColumnHandle({ onResize }: { onResize(width: number): void }) {
  const start = (event: PointerEvent<HTMLSpanElement>) => {
    const handle = event.currentTarget
    const head = handle.parentElement
    if (!head) return
    event.preventDefault()
    handle.setPointerCapture(event.pointerId)
    const from = event.clientX - head.offsetWidth
    const move = ({ clientX }: globalThis.PointerEvent) => onResize(Math.max(NARROWEST_PX, clientX - from))
    handle.addEventListener('pointermove', move)
    handle.addEventListener('lostpointercapture', () => handle.removeEventListener('pointermove', move), { once: true })
  }
  return <span className="column-handle" aria-hidden="true" onPointerDown={start} />
}
