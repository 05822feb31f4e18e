/**
 * Records which files of a folder are open, in the folder itself. After a crash the next process knows which files may have
 * caused it. A record is one small append without a flush: it has to survive the process, not the machine. If the ledger
 * cannot be written it is abandoned; only the checks after a crash depend on it.
 */
import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { basename, join } from 'node:path'

const LEDGER_FILE = '.open-files'

/** Beyond this length it is rewritten with the files that are open now. */
const LEDGER_BYTES = 256 * 1024

const NOTE = { opening: '+', opened: '=', closed: '-', fallen: '!', unwalked: '~', walked: '*' } as const

/** What the process before left, when it did not end in order. */
export interface LeftOpen {
  /** File names; those that were opened last come first. */
  readonly open: readonly string[]
  /** Those whose opening ended the last process, and those with which that happened twice. */
  readonly fellOnce: readonly string[]
  readonly fellTwice: readonly string[]
  /** Those that were open at an earlier fall too, and whose pages were not all walked after it. */
  readonly unwalked: readonly string[]
}

export class FileLedger {
  readonly #path: string
  readonly #open = new Set<string>()
  readonly #fallen: readonly string[]
  readonly #unwalked = new Set<string>()
  #file: number | undefined
  #bytes = 0

  /** Begins a ledger; `left` is what the one before said. */
  static begin(folder: string): { readonly ledger: FileLedger; readonly left: LeftOpen } {
    const path = join(folder, LEDGER_FILE)
    const left = readLedger(path)
    return { ledger: new FileLedger(path, left.fellOnce), left }
  }

  private constructor(path: string, fallen: readonly string[]) {
    this.#path = path
    this.#fallen = fallen
    this.#rewrite()
  }

  opening(path: string): void {
    this.#note(NOTE.opening, path)
  }

  opened(path: string): void {
    this.#open.add(basename(path))
    this.#note(NOTE.opened, path)
  }

  closed(path: string): void {
    this.#open.delete(basename(path))
    this.#note(NOTE.closed, path)
  }

  /** Not all of its pages were walked after a fall: if it is open at the next one, they should be. */
  unwalked(fileName: string): void {
    this.#unwalked.add(fileName)
    this.#note(NOTE.unwalked, fileName)
  }

  walked(fileName: string): void {
    this.#unwalked.delete(fileName)
    this.#note(NOTE.walked, fileName)
  }

  /** The process ends regularly: the ledger is not needed. */
  end(): void {
    this.#giveUp()
    try {
      rmSync(this.#path, { force: true })
    } catch {
      // The folder cannot be written any more. The next start walks the pages of some files for nothing.
    }
  }

  #note(kind: string, path: string): void {
    if (this.#file === undefined) return
    try {
      this.#bytes += writeSync(this.#file, `${kind}${basename(path)}\n`)
      if (this.#bytes > LEDGER_BYTES) this.#rewrite()
    } catch {
      this.#giveUp()
    }
  }

  #rewrite(): void {
    try {
      if (this.#file !== undefined) closeSync(this.#file)
      this.#file = openSync(this.#path, 'w')
      const lines = [
        ...this.#fallen.map((name) => NOTE.fallen + name),
        ...[...this.#open].map((name) => NOTE.opened + name),
        ...[...this.#unwalked].map((name) => NOTE.unwalked + name),
      ]
      this.#bytes = lines.length > 0 ? writeSync(this.#file, `${lines.join('\n')}\n`) : 0
    } catch {
      this.#giveUp()
    }
  }

  #giveUp(): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }
}

function readLedger(path: string): LeftOpen {
  const opening = new Set<string>()
  const open = new Set<string>()
  const fallen = new Set<string>()
  const unwalked = new Set<string>()
  for (const line of textOf(path).split('\n')) {
    const name = line.slice(1)
    if (line.startsWith(NOTE.fallen)) fallen.add(name)
    else if (line.startsWith(NOTE.unwalked)) unwalked.add(name)
    else if (line.startsWith(NOTE.walked)) unwalked.delete(name)
    else if (line.startsWith(NOTE.opening)) opening.add(name)
    else if (line.startsWith(NOTE.opened) || line.startsWith(NOTE.closed)) {
      opening.delete(name)
      open.delete(name)
      // One that was opened and closed again does not end a process.
      fallen.delete(name)
      if (line.startsWith(NOTE.opened)) open.add(name)
    }
  }
  const fellTwice = [...opening].filter((name) => fallen.has(name))
  const fellOnce = new Set([...opening, ...fallen])
  for (const name of fellTwice) fellOnce.delete(name)
  const suspects = new Set([...open, ...fellOnce])
  return {
    open: [...open].reverse(),
    fellOnce: [...fellOnce],
    fellTwice,
    unwalked: [...unwalked].filter((name) => suspects.has(name)),
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
