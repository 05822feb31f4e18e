/** One secondary node, restarted whenever it ends, until it is stopped. */
import { type ChildProcess, type SendHandle, type Serializable, spawn } from 'node:child_process'
import type { KeptResources } from './kept-resources.ts'
import { type ConnectionMessage, isServerMessage, type SupervisorMessage } from './message.ts'
import { RestartDelay } from './restart-delay.ts'
import type { ServerCommand } from './server-command.ts'

export interface SecondaryContext {
  readonly command: ServerCommand
  /** Where the nodes find each other. */
  readonly folder: string
  readonly number: number
  readonly resources: KeptResources
  /** Passes a connection on to the primary. Owns the handle. */
  readonly passOn: (message: ConnectionMessage, handle: SendHandle) => void
  /** Receives a line about each crash. */
  readonly report: (line: string) => void
}

/** Longer than a node waits for requests under way. */
const STOP_LIMIT_MS = 20_000

export class SecondaryProcess {
  readonly #context: SecondaryContext
  readonly #delay = new RestartDelay()
  readonly #ended = Promise.withResolvers<void>()
  #child: ChildProcess | undefined
  #pause: NodeJS.Timeout | undefined
  #isStopping = false

  constructor(context: SecondaryContext) {
    this.#context = context
    this.#start()
  }

  /** Lets it finish the requests under way; resolves when it is gone. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearTimeout(this.#pause)
    if (!this.#child) return
    this.#send({ kind: 'stop' })
    const limit = setTimeout(() => this.kill(), STOP_LIMIT_MS)
    await this.#ended.promise
    clearTimeout(limit)
  }

  kill(): void {
    this.#isStopping = true
    clearTimeout(this.#pause)
    this.#child?.kill('SIGKILL')
  }

  #start(): void {
    const { command, folder, number, resources, passOn } = this.#context
    const { args, environment } = command
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], env: environment })
    this.#child = child
    child.on('message', (message: Serializable, handle: SendHandle | undefined) => {
      if (!isServerMessage(message)) return
      if (message.kind === 'connection' && handle) passOn(message, handle)
      if (message.kind !== 'take' || !child.connected) return
      const reply: SupervisorMessage = { kind: 'reply', id: message.id }
      child.send(reply, resources.socket(message.address), () => {})
    })
    child.once('error', (error) => this.#childEnded(child, error.message))
    child.once('exit', (code, signal) => this.#childEnded(child, signal ?? `exit code ${code}`))
    this.#send({ kind: 'start', term: 0, nodeFolder: folder, secondary: number })
  }

  #childEnded(child: ChildProcess, end: string): void {
    if (child !== this.#child) return
    this.#child = undefined
    if (this.#isStopping) {
      this.#ended.resolve()
      return
    }
    const delayMs = this.#delay.nextMs(performance.now())
    this.#context.report(`Node ${this.#context.number} ended by ${end}. It is restarted in ${delayMs / 1000} s.`)
    this.#pause = setTimeout(() => this.#start(), delayMs)
  }

  #send(message: SupervisorMessage): void {
    if (this.#child?.connected) this.#child.send(message, undefined, () => {})
  }
}
