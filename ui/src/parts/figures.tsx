/** Numbers, sizes and times in readable form; the exact value is in the title. */

const COUNT = new Intl.NumberFormat('en')

export function count(value: number): string {
  return COUNT.format(value)
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB']

export function bytesText(value: number): string {
  let size = value
  let unit = 0
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1000
    unit++
  }
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`
}

export function Bytes({ value }: { value: number }) {
  return <span title={`${count(value)} bytes`}>{bytesText(value)}</span>
}

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const STEPS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const

export function relativeText(timeMs: number, nowMs = Date.now()): string {
  const seconds = Math.round((timeMs - nowMs) / 1000)
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.round(seconds / length), unit)
  }
  return RELATIVE.format(seconds, 'second')
}

export function RelativeTime({ timeMs }: { timeMs: number }) {
  const date = new Date(timeMs)
  return (
    <time dateTime={date.toISOString()} title={date.toLocaleString()}>
      {relativeText(timeMs)}
    </time>
  )
}

/** A fraction as a bar, with a label. */
export function Progress({ value, label }: { value: number; label: string }) {
  const percent = Math.max(0, Math.min(100, value * 100))
  return (
    <div className="progress" role="progressbar" aria-label={label} aria-valuenow={Math.round(percent)}>
      <div style={{ width: `${percent}%` }} />
    </div>
  )
}

/** A sparkline of the last values. A text beside it says what it shows. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const top = Math.max(...values, 1e-9)
  const points = values.map((value, index) => {
    const x = values.length < 2 ? 0 : (index / (values.length - 1)) * 100
    return `${x.toFixed(2)} ${(35 - (value / top) * 33).toFixed(2)}`
  })
  const line = points.length === 0 ? '' : `M${points.join('L')}`
  return (
    <svg className="spark" viewBox="0 0 100 36" preserveAspectRatio="none" role="img" aria-label={label}>
      {line !== '' && <path className="spark-area" d={`${line}L100 36L0 36Z`} />}
      {line !== '' && <path d={line} />}
    </svg>
  )
}
