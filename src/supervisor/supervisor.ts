/**
 * Runs the server as a child process and restarts it when it crashes. It has no native parts and does very little, so
 * that it does not crash itself. It keeps what the next server needs: leases of folders, listening sockets. If the
 * server wants other nodes beside it, the supervisor starts and restarts those too; the server is then the primary. A
 * server that ends in order, or fails when it is first started, ends the supervisor with its exit code.
 */
import { type ChildProcess, type SendHandle, type Serializable, spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { constants } from 'node:os'
import { closeHandle } from '../wire/socket-handle.ts'
import type { KeptResources } from './kept-resources.ts'
import {
  type ConnectionMessage,
  isServerMessage,
  type ServerMessage,
  type SupervisorMessage,
  type WantedSecondaries,
} from './message.ts'
import { RestartDelay } from './restart-delay.ts'
import { SecondaryProcess } from './secondary-process.ts'
import type { ServerCommand } from './server-command.ts'

export interface SupervisedServer {
  readonly command: ServerCommand
  /** Set if data is in memory, and lost when the server ends. */
  readonly isInMemory: boolean
  /** How long a shutdown may take. */
  readonly stopLimitMs?: number
}

/** Crashes in a row before it was ready; then the supervisor gives up. */
const FAILED_STARTS_LIMIT = 10
const INTERRUPTED = 130

/**
 * Longer than a server waits for requests and index updates under way. One that takes longer is stuck, and is killed.
 */
const STOP_LIMIT_MS = 45_000

export class Supervisor {
  readonly #supervised: SupervisedServer
  readonly #resources: KeptResources
  /** Receives a line about each crash. */
  readonly #report: (line: string) => void
  readonly #delay = new RestartDelay()
  readonly #ended = Promise.withResolvers<number>()
  #server: ChildProcess | undefined
  #startedMs = 0
  #isReady = false
  #wasEverReady = false
  #failedStarts = 0
  #isStopping = false
  /** The timer of the next start, or of the kill of a server that does not end. */
  #pause: NodeJS.Timeout | undefined
  #secondaries: readonly SecondaryProcess[] = []
  #nodeFolder: string | undefined
  /** Counts the starts of the primary. */
  #term = 0
  /** Sockets of connections that are on their way to the primary. */
  readonly #passing = new Set<SendHandle>()

  constructor(supervised: SupervisedServer, resources: KeptResources, report: (line: string) => void) {
    this.#supervised = supervised
    this.#resources = resources
    this.#report = report
  }

  /** Resolves to an exit code. */
  async run(): Promise<number> {
    this.#start()
    const code = await this.#ended.promise
    for (const secondary of this.#secondaries) secondary.kill()
    if (this.#nodeFolder !== undefined) await rm(this.#nodeFolder, { recursive: true, force: true })
    return code
  }

  /** Lets the server finish the requests under way; a second call does not wait for them. */
  stop(): void {
    if (this.#isStopping) {
      this.#server?.kill('SIGKILL')
      this.#ended.resolve(INTERRUPTED)
    }
    this.#isStopping = true
    clearTimeout(this.#pause)
    if (!this.#server) {
      this.#ended.resolve(0)
      return
    }
    void this.#stopAll()
    const limitMs = this.#supervised.stopLimitMs ?? STOP_LIMIT_MS
    this.#pause = setTimeout(() => {
      this.#report(`The server did not shut down within ${limitMs / 1000} s. It is killed.`)
      this.#server?.kill('SIGKILL')
    }, limitMs)
  }

  /** Secondaries first: they may have requests under way that the primary works on. */
  async #stopAll(): Promise<void> {
    await Promise.all(this.#secondaries.map((each) => each.stop()))
    this.#send({ kind: 'stop' })
  }

  #startSecondaries({ count, folder }: WantedSecondaries): void {
    if (this.#nodeFolder !== undefined || this.#isStopping) return
    this.#nodeFolder = folder
    const { command } = this.#supervised
    this.#secondaries = Array.from({ length: count }, (_, i) => {
      const passOn = (message: ConnectionMessage, handle: SendHandle) => this.#passOn(message, handle)
      const context = { command, folder, number: i + 1, resources: this.#resources, passOn, report: this.#report }
      return new SecondaryProcess(context)
    })
  }

  /** The sender has the socket too, and goes on with it where the primary does not get it. */
  #passOn(message: ConnectionMessage, handle: SendHandle): void {
    this.#passing.add(handle)
    const passed = () => {
      if (this.#passing.delete(handle)) closeHandle(handle)
    }
    if (this.#server?.connected) this.#server.send(message, handle, passed)
    else passed()
  }

  #start(previousEnd?: string): void {
    const { args, environment } = this.#supervised.command
    this.#isReady = false
    this.#startedMs = performance.now()
    this.#resources.serverStarts()
    const server = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], env: environment })
    this.#server = server
    server.on('message', (message: Serializable, handle: SendHandle | undefined) => {
      if (server === this.#server && isServerMessage(message)) this.#receive(message, handle)
    })
    server.once('error', (error) => this.#serverEnded(server, error.message))
    server.once('exit', (code, signal) => this.#serverEnded(server, signal ?? code ?? 'unknown'))
    this.#send({
      kind: 'start',
      term: ++this.#term,
      startedMs: performance.timeOrigin + this.#startedMs,
      ...(previousEnd !== undefined && { previousEnd }),
      ...(this.#nodeFolder !== undefined && { nodeFolder: this.#nodeFolder }),
    })
  }

  #receive(message: ServerMessage, handle: SendHandle | undefined): void {
    const resources = this.#resources
    switch (message.kind) {
      case 'lease':
        resources.lease(message.folder).then(
          () => this.#reply(message.id),
          (error: unknown) => this.#reply(message.id, { error: messageOf(error) }),
        )
        break
      case 'release':
        resources.release(message.folder)
        break
      case 'take':
        this.#reply(message.id, {}, resources.socket(message.address))
        break
      case 'keep':
        if (handle) resources.keep(message.address, handle)
        break
      case 'keep-only':
        resources.keepOnly(message.addresses)
        this.#reply(message.id)
        break
      case 'ready':
        this.#serverIsReady()
        if (message.secondaries) this.#startSecondaries(message.secondaries)
        break
    }
  }

  #serverIsReady(): void {
    this.#resources.serverIsReady()
    if (this.#wasEverReady) this.#report(`The server is ready again after ${this.#seconds()} s.`)
    this.#isReady = true
    this.#wasEverReady = true
    this.#failedStarts = 0
  }

  /** A signal, an exit code, or a reason in words. */
  #serverEnded(server: ChildProcess, end: number | string): void {
    if (server !== this.#server) return
    this.#server = undefined
    // Node forgets what it has not sent.
    for (const handle of this.#passing) closeHandle(handle)
    this.#passing.clear()
    clearTimeout(this.#pause)
    if (this.#isStopping || end === 0 || wasAskedFor(end)) this.#ended.resolve(exitCodeOf(end))
    // It has printed the reason itself.
    else if (!this.#wasEverReady && typeof end === 'number') this.#ended.resolve(end)
    else this.#startAgain(end)
  }

  #startAgain(end: number | string): void {
    const how = typeof end === 'number' ? `with exit code ${end}` : `by ${end}`
    const when = this.#isReady ? `after ${this.#seconds()} s` : `while it started, after ${this.#seconds()} s`
    const loss = this.#supervised.isInMemory ? ' What it had in memory is lost.' : ''
    const what = `The server ended ${how} ${when}.${loss}`
    if (!this.#isReady && ++this.#failedStarts === FAILED_STARTS_LIMIT) {
      this.#report(`${what} It is not restarted: it failed ${FAILED_STARTS_LIMIT} times in a row.`)
      this.#ended.resolve(1)
      return
    }
    const delayMs = this.#delay.nextMs(performance.now())
    this.#report(`${what} It is restarted in ${delayMs / 1000} s.`)
    this.#pause = setTimeout(() => this.#start(what), delayMs)
  }

  #reply(id: number, { error }: { readonly error?: string } = {}, handle?: SendHandle): void {
    this.#send({ kind: 'reply', id, ...(error !== undefined && { error }) }, handle)
  }

  /** A message to a server that has just ended may be lost. */
  #send(message: SupervisorMessage, handle?: SendHandle): void {
    if (this.#server?.connected) this.#server.send(message, handle, () => {})
  }

  #seconds(): string {
    return ((performance.now() - this.#startedMs) / 1000).toFixed(1)
  }
}

/** The server handles these once it is ready; before, the system ends it. */
function wasAskedFor(end: number | string): boolean {
  return end === 'SIGTERM' || end === 'SIGINT' || end === 'SIGHUP'
}

function exitCodeOf(end: number | string): number {
  if (typeof end === 'number') return end
  const [, signalNumber] = Object.entries(constants.signals).find(([name]) => name === end) ?? []
  return signalNumber === undefined ? 1 : 128 + signalNumber
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
