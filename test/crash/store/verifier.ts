/**
 * Checks folders after a crash in a process of its own: a damaged file can end the process that opens it, and that is
 * a finding like any other. Run by itself this file is that process.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { checkFolder } from '../check-folder.ts'
import type { ExpectedStores } from './expectations.ts'

interface Task {
  readonly folder: string
  readonly expected: ExpectedStores
}

/** Only a process that hangs takes so long. */
const PATIENCE_MS = 300_000

export class Verifier {
  #process: ChildProcess | undefined
  #complaints = ''

  /** The problems found, in sentences. */
  async check(folder: string, expected: ExpectedStores): Promise<string[]> {
    this.#process ??= this.#start()
    const task: Task = { folder, expected }
    this.#process.send(task)
    const problems = await this.#answer(this.#process)
    const complaints = this.#complaints
    this.#complaints = ''
    return complaints === '' ? problems : [...problems, `The verifier wrote: ${complaints}`]
  }

  async stop(): Promise<void> {
    const running = this.#process
    if (!running) return
    this.#process = undefined
    running.disconnect()
    await once(running, 'exit')
  }

  #start(): ChildProcess {
    const started = fork(fileURLToPath(import.meta.url), { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    started.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#complaints += text
    })
    return started
  }

  #answer(running: ChildProcess): Promise<string[]> {
    return new Promise((resolve) => {
      const impatience = setTimeout(() => running.kill('SIGKILL'), PATIENCE_MS)
      const onMessage = (problems: string[]) => {
        clearTimeout(impatience)
        running.off('exit', onExit)
        resolve(problems)
      }
      const onExit = (code: number | null, signal: string | null) => {
        clearTimeout(impatience)
        running.off('message', onMessage)
        this.#process = undefined
        resolve([`The process that opened the folder died of ${signal ?? `code ${code}`}.`])
      }
      running.once('message', onMessage)
      running.once('exit', onExit)
    })
  }
}

if (import.meta.main) {
  process.on('message', async ({ folder, expected }: Task) => {
    const problems = await checkFolder(folder, expected).catch((error: unknown) => [
      `The folder does not open: ${error}`,
    ])
    process.send?.(problems)
  })
}
