/**
 * The progress of a command on stderr: a bar that is drawn in place on a terminal, and otherwise a line from time to time, for a
 * log. Standard output stays free for the output of the command.
 */

export interface ProgressStream {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

export interface ProgressOptions {
  readonly quiet?: boolean
  /** In milliseconds. */
  readonly now?: () => number
}

const DRAWN_EVERY_MS = 100
const LINE_EVERY_MS = 10_000
const BAR_CELLS = 24

export class Progress {
  readonly #stream: ProgressStream
  readonly #isQuiet: boolean
  readonly #now: () => number
  #label = ''
  #begunMs = 0
  #shownMs = 0
  #isDrawn = false

  constructor(stream: ProgressStream, { quiet = false, now = () => performance.now() }: ProgressOptions = {}) {
    this.#stream = stream
    this.#isQuiet = quiet
    this.#now = now
  }

  begin(label: string): void {
    this.#label = label
    this.#begunMs = this.#now()
    this.#shownMs = this.#begunMs
  }

  /** `share` is between 0 and 1. */
  update(share: number, detail: string): void {
    if (this.#isQuiet) return
    const now = this.#now()
    const every = this.#stream.isTTY ? DRAWN_EVERY_MS : LINE_EVERY_MS
    if (now - this.#shownMs < every) return
    this.#shownMs = now
    const percent = `${Math.floor(Math.min(1, Math.max(0, share)) * 100)}%`.padStart(4)
    if (this.#stream.isTTY) this.#draw(`${bar(share)} ${percent} ${this.#label}: ${detail}${this.#left(share, now)}`)
    else this.#stream.write(`${this.#label}: ${percent.trim()}, ${detail}\n`)
  }

  /** A line that stays. */
  line(text: string): void {
    this.clear()
    if (!this.#isQuiet) this.#stream.write(`${text}\n`)
  }

  /** A line that stays, also with `--quiet`. */
  warn(text: string): void {
    this.clear()
    this.#stream.write(`${text}\n`)
  }

  clear(): void {
    if (this.#isDrawn) this.#stream.write('\r\x1b[K')
    this.#isDrawn = false
  }

  #draw(text: string): void {
    const room = Math.max(20, (this.#stream.columns ?? 80) - 1)
    this.#stream.write(`\r\x1b[K${text.length > room ? `${text.slice(0, room - 1)}…` : text}`)
    this.#isDrawn = true
  }

  #left(share: number, now: number): string {
    const spentMs = now - this.#begunMs
    if (share < 0.02 || spentMs < 3000) return ''
    return `, ${duration((spentMs * (1 - share)) / share)} left`
  }
}

function bar(share: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR_CELLS)
  return `[${'█'.repeat(filled)}${'░'.repeat(BAR_CELLS - filled)}]`
}

function duration(ms: number): string {
  const seconds = Math.ceil(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  return seconds < 3600 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}

/** `1.5 MB`, for people. */
export function sizeText(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  let unit = 0
  let size = bytes
  for (; size >= 1000 && unit < units.length - 1; unit++) size /= 1000
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`
}

/** `1 document`, `1,234 documents`. */
export function countText(count: number, noun: string, plural = `${noun}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? noun : plural}`
}
