/** The server as its users have it: a process of its own on a folder, that can be killed. */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { serverCommand } from '../../src/supervisor/server-command.ts'
import { descendantsCalled } from '../support/descendants.ts'

export class ServerProcess {
  readonly #child: ChildProcessByStdio<null, Readable, Readable>
  readonly #closed: Promise<unknown>
  #complaints = ''
  #isKilled = false
  #endedByItself = false

  /** Does not wait until the server is ready: see `url`. */
  constructor(folder: string) {
    // Without a supervisor: nobody starts a server again that the test has killed.
    const { args, environment } = serverCommand(['--port', '0', '--dir', folder])
    this.#child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], env: environment })
    this.#closed = once(this.#child, 'close')
    this.#closed.then(() => {
      this.#endedByItself = !this.#isKilled
    })
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#complaints += text
    })
  }

  /** Resolves when the server answers; undefined when it ended before. */
  url(): Promise<string | undefined> {
    return new Promise((resolve) => {
      let said = ''
      this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text
        const [url] = /http:\S+/.exec(said) ?? []
        if (url) resolve(url)
      })
      this.#closed.then(() => resolve(undefined))
    })
  }

  /** What it wrote to its error output. */
  get complaints(): string {
    return this.#complaints
  }

  /** Whether it was gone before anybody ended it. */
  get endedByItself(): boolean {
    return this.#endedByItself
  }

  /** The most that it ever had in memory, mapped files included. */
  get peakBytes(): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8')
    const [, kilobytes] = /^VmHWM:\s*(\d+) kB/m.exec(status) ?? []
    return Number(kilobytes) * 1024
  }

  /** Memory of its own: mapped files, which the system can take back at any time, are not in it. */
  get residentBytes(): number {
    return ownBytes(this.#child.pid)
  }

  /** The same of the processes that it has started, taken together. */
  get childrenBytes(): number {
    const { pid } = this.#child
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
    return children.filter((each) => each !== '').reduce((sum, each) => sum + ownBytes(Number(each)), 0)
  }

  /** The processes that it has started, or that these have, by their title. */
  childrenCalled(title: string): number[] {
    const { pid } = this.#child
    return pid === undefined ? [] : descendantsCalled(pid, title)
  }

  /** The files that a process has open. */
  filesOf(pid: number): string[] {
    return readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${descriptor}`)]
      } catch {
        return []
      }
    })
  }

  /** Ends it at once, wherever it is. */
  async kill(): Promise<void> {
    this.#isKilled = true
    this.#child.kill('SIGKILL')
    await this.#closed
  }

  /** Ends it in order. */
  async stop(): Promise<void> {
    this.#isKilled = true
    this.#child.kill('SIGTERM')
    await this.#closed
  }
}

/** Zero where it is gone. */
function ownBytes(pid: number | undefined): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}
