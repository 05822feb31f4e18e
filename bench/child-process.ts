/**
 * The processes that a benchmark starts and the folders that it makes. All are gone when it ends, however it ends;
 * processes are ended by their ids alone.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const STOPPING_LIMIT_MS = 15_000
const ERROR_TEXT_LIMIT = 2000

const running = new Set<ChildProcess>()
const folders = new Set<string>()

process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130))

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'settle-bench-'))
  folders.add(folder)
  return folder
}

export interface StartOptions {
  readonly node?: string
  readonly cwd?: string
  readonly args: readonly string[]
  readonly environment?: NodeJS.ProcessEnv
  /** With a channel for messages to and from the child. */
  readonly messages?: boolean
}

export class NodeProcess {
  readonly #child: ChildProcess
  readonly #ended: Promise<void>
  #errorText = ''

  constructor({ node = process.execPath, args, cwd, environment, messages = false }: StartOptions) {
    const stdio = ['ignore', 'pipe', 'pipe', ...(messages ? (['ipc'] as const) : [])] as const
    const child = spawn(node, args, { cwd, env: environment, stdio: [...stdio] })
    this.#child = child
    running.add(child)
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errorText = (this.#errorText + text).slice(-ERROR_TEXT_LIMIT)
    })
    this.#ended = new Promise<void>((resolve) => {
      child.once('error', () => resolve())
      child.once('exit', () => resolve())
    }).then(() => {
      running.delete(child)
    })
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw this.#failure()
    return this.#child.pid
  }

  get isRunning(): boolean {
    return running.has(this.#child)
  }

  /** Resolves to its exit code; null where a signal ended it. */
  async ended(): Promise<number | null> {
    await this.#ended
    return this.#child.exitCode
  }

  /** What the first group of the pattern matches in what the process prints. */
  printed(pattern: RegExp): Promise<string> {
    let text = ''
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.#child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
      const found = pattern.exec(text)?.[1]
      if (found !== undefined) resolve(found)
    })
    this.#ended.then(() => reject(this.#failure()))
    return promise
  }

  /** Sends a message and waits for the next one that comes back. */
  ask(question: object): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#child.once('message', resolve)
    this.#ended.then(() => reject(this.#failure()))
    this.#child.send(question)
    return promise
  }

  /** Asks it to end, and makes it end when it takes too long. */
  async stop(): Promise<void> {
    if (!this.isRunning) return
    this.#child.kill('SIGTERM')
    const impatience = setTimeout(() => this.#child.kill('SIGKILL'), STOPPING_LIMIT_MS)
    await this.#ended
    clearTimeout(impatience)
  }

  #failure(): Error {
    return new Error(`${this.#child.spawnargs.join(' ')} ended too early. ${this.#errorText}`.trim())
  }
}
