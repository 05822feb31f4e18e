/**
 * A program beside the server, spoken to in lines of JSON. It gets its standard streams and no other descriptor of the
 * server, and ends with it. What it writes to stderr goes into the log.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { dirname, extname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Log } from '../log/log.ts'
import { endGroupWithUs } from './reaper.ts'

export interface ExternalProcessOptions {
  /** What the log calls it. */
  readonly name: string
  /** Split into words as a shell does, but run without one. */
  readonly command: string
  readonly log: Log
  /** Called with each line that it writes to stdout; without, they are dropped. */
  readonly onLine?: (line: string) => void
  /** The longest line on stdout; a program that writes a longer one is ended. */
  readonly longestLineBytes?: number
  /** What may wait to be read by the program; one that lets more come together is ended. */
  readonly waitingBytes?: number
}

const LONGEST_LINE_BYTES = 16 * 1024 * 1024
const LONGEST_LOG_LINE_BYTES = 8 * 1024

const WAITING_BYTES = 16 * 1024 * 1024

/** How long a program may take to end. */
const GRACE_MS = 2000

export class ExternalProcess {
  /** Resolves to how it ended, in words. */
  readonly exited: Promise<string>
  /** Resolves when it has ended and its output was read. */
  readonly closed: Promise<void>
  /** Without streams where the system had no room for it. */
  readonly #child: ChildProcess
  readonly #name: string
  readonly #log: Log
  readonly #waitingBytes: number
  #isRunning = true

  constructor({
    name,
    command,
    log,
    onLine = () => {},
    longestLineBytes = LONGEST_LINE_BYTES,
    waitingBytes = WAITING_BYTES,
  }: ExternalProcessOptions) {
    this.#name = name
    this.#log = log
    this.#waitingBytes = waitingBytes
    const child = startDetached(commandWords(command))
    this.#child = child
    endGroupWithUs(child)
    this.exited = new Promise((resolve) => {
      child.once('error', (error) => resolve(String(error)))
      child.once('exit', (code, signal) => resolve(signal ?? `status ${code}`))
    }).then((how) => {
      this.#isRunning = false
      running.delete(this)
      return String(how)
    })
    this.closed = new Promise((resolve) => {
      child.once('error', () => resolve())
      child.once('close', () => resolve())
    })
    running.add(this)
    // Writing to a program that has ended is no failure of the server.
    child.stdin?.on('error', () => {})
    if (!child.stdout || !child.stderr) return
    readLines(child.stdout, {
      longestBytes: longestLineBytes,
      onLine,
      onPiece: () => this.#endFor('It wrote a line that is too long.'),
    })
    const logged = (line: string) => log.info(line, { program: name })
    readLines(child.stderr, { longestBytes: LONGEST_LOG_LINE_BYTES, onLine: logged, onPiece: logged })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** One line of JSON; dropped when the program is gone. */
  send(message: unknown): void {
    this.sendLine(JSON.stringify(message))
  }

  /** The same, of a text that is ready: one line, without its end. */
  sendLine(line: string): void {
    const { stdin } = this.#child
    if (!this.#isRunning || !stdin?.writable) return
    stdin.write(`${line}\n`)
    if (stdin.writableLength > this.#waitingBytes) this.#endFor('It does not read what it is sent.')
  }

  /** Resolves when the program is gone: it is asked first, and then made to. */
  async stop(): Promise<void> {
    if (!this.#isRunning) return
    this.#child.stdin?.end()
    this.kill('SIGTERM')
    const impatience = setTimeout(() => this.kill('SIGKILL'), GRACE_MS)
    await this.exited
    clearTimeout(impatience)
  }

  /** To the program and to those that it started. */
  kill(signal: 'SIGTERM' | 'SIGKILL'): void {
    const { pid } = this.#child
    if (!this.#isRunning || pid === undefined) return
    try {
      process.kill(-pid, signal)
    } catch {
      // Just gone.
    }
  }

  #endFor(reason: string): void {
    if (!this.#isRunning) return
    this.#log.error('An external program is ended.', { program: this.#name, reason })
    this.kill('SIGKILL')
  }
}

const running = new Set<ExternalProcess>()

// Also where the server does not take the time to stop them.
process.on('exit', () => {
  for (const each of running) each.kill('SIGKILL')
})

const ownFile = fileURLToPath(import.meta.url)
const launcherFile = join(dirname(ownFile), `closing-launcher${extname(ownFile)}`)

/**
 * In a group of its own: what a terminal sends to the server is the server's to handle. The shell does no more than look
 * the program up.
 */
function startDetached(words: readonly string[]): ChildProcess {
  const lookup = ['-c', 'exec "$@"', 'sh', ...words]
  if (process.platform !== 'linux') return spawn('/bin/sh', lookup, { detached: true })
  return spawn(process.execPath, ['--no-warnings', launcherFile, ...lookup], { detached: true })
}

/**
 * A command line as words, as a shell would split it: blanks separate words, quotes keep them together, a backslash keeps
 * the next character as it is. Nothing else of a shell is here: no variables, no patterns, no pipes.
 */
export function commandWords(line: string): string[] {
  return [...line.matchAll(WORD)].map(([word]) => word.replace(PART, unquoted))
}

/** A quote that is never closed extends to the end. */
const PART = /'([^']*)(?:'|$)|"((?:[^"\\]|\\.)*)(?:"|\\?$)|\\(.)/gs
const WORD = /(?:'[^']*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|\\?$)|\\.|[^\s'"])+/gs

function unquoted(_: string, single?: string, double?: string, escaped?: string): string {
  // Between double quotes a backslash is one, but before a quote or another backslash: paths come through.
  return single ?? double?.replace(/\\(["\\])/g, '$1') ?? escaped ?? ''
}

export interface LineReading {
  readonly longestBytes: number
  onLine(line: string): void
  /** Called with the beginning of a line that is too long, and again with each such piece of it. */
  onPiece(piece: string): void
}

/** Cuts what a program writes into lines, none longer than it may be. */
function readLines(stream: Readable, { longestBytes, onLine, onPiece }: LineReading): void {
  let begun: Buffer[] = []
  let begunBytes = 0
  const taken = (): string => {
    const text = Buffer.concat(begun).toString()
    begun = []
    begunBytes = 0
    return text
  }
  const keep = (bytes: Buffer): void => {
    begun.push(bytes)
    begunBytes += bytes.length
  }
  stream.on('data', (chunk: Buffer) => {
    let from = 0
    for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, from)) {
      keep(chunk.subarray(from, end))
      from = end + 1
      if (begunBytes > longestBytes) onPiece(taken())
      else onLine(taken())
    }
    if (from < chunk.length) keep(chunk.subarray(from))
    if (begunBytes > longestBytes) onPiece(taken())
  })
  stream.on('end', () => {
    if (begunBytes > 0) onLine(taken())
  })
  // A pipe that breaks is a program that ends, which is noticed elsewhere.
  stream.on('error', () => {})
}

const LINE_END = 0x0a
