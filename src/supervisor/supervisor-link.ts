/**
 * The server's end of the channel to its supervisor: requests leases and sockets, receives the order to stop, and
 * notices when the supervisor is gone.
 */
import type { SendHandle, Serializable } from 'node:child_process'
import type { Server } from 'node:net'
import type { ListeningAddress, ListeningSockets } from '../http/listeners/listener.ts'
import type { ConnectionSender, MovedConnection, OnConnection } from '../nodes/moved-connection.ts'
import type { FolderLock } from '../storage/files/folder-lock.ts'
import { DataFolderError } from '../storage/storage-error.ts'
import { closeHandle } from '../wire/socket-handle.ts'
import {
  isSupervisorMessage,
  type ServerMessage,
  type ServerRequest,
  type StartMessage,
  type SupervisorMessage,
  socketHandle,
  type WantedSecondaries,
} from './message.ts'

/** Two seconds: a node has ten to follow a change of settings. */
const SOCKET_ATTEMPTS = 40
const SOCKET_PAUSE_MS = 50

interface Reply {
  readonly error?: string
  readonly handle?: SendHandle
}

type Unnumbered<Request> = Request extends unknown ? Omit<Request, 'id'> : never

export class SupervisorLink implements ListeningSockets, ConnectionSender {
  readonly #replies = new Map<number, (reply: Reply) => void>()
  readonly #started = Promise.withResolvers<StartMessage>()
  #requests = 0
  #isStopped = false
  #onStop: () => void = () => {}
  #onLost: () => void = () => {}
  #onConnection: Parameters<OnConnection>[0] = (_, handle) => closeHandle(handle)

  /** Undefined in a process that no supervisor started. */
  static connect(): SupervisorLink | undefined {
    return process.channel ? new SupervisorLink() : undefined
  }

  private constructor() {
    process.on('message', (message: unknown, handle: SendHandle | undefined) => {
      if (isSupervisorMessage(message)) this.#receive(message, handle)
    })
    process.on('disconnect', () => this.#onDisconnect())
  }

  /** What this process is started as. */
  get started(): Promise<StartMessage> {
    return this.#started.promise
  }

  /** Also when it was already stopped. */
  onStop(listener: () => void): void {
    this.#onStop = listener
    if (this.#isStopped) listener()
  }

  /** The supervisor is gone, and the next server will need the folder and the port. */
  onLost(listener: () => void): void {
    this.#onLost = listener
    if (!process.connected) listener()
  }

  /** For a primary: connections that secondaries move to it. */
  onConnection: OnConnection = (listener) => {
    this.#onConnection = listener
  }

  sendConnection(connection: MovedConnection, handle: SendHandle): Promise<void> {
    return new Promise((resolve) => {
      if (!process.connected || !process.send) resolve()
      else process.send({ kind: 'connection', connection } satisfies ServerMessage, handle, {}, () => resolve())
    })
  }

  ready(secondaries?: WantedSecondaries): void {
    this.#send({ kind: 'ready', ...(secondaries && { secondaries }) })
  }

  async takeLease(folder: string): Promise<FolderLock> {
    const { error } = await this.#ask({ kind: 'lease', folder })
    if (error !== undefined) throw new DataFolderError(error)
    return { release: () => this.#send({ kind: 'release', folder }) }
  }

  async take(address: ListeningAddress): Promise<object | undefined> {
    return (await this.#ask({ kind: 'take', address })).handle
  }

  keep(address: ListeningAddress, server: Server): void {
    const handle = socketHandle(server)
    if (handle) this.#send({ kind: 'keep', address }, handle)
  }

  async keepOnly(addresses: readonly ListeningAddress[]): Promise<void> {
    await this.#ask({ kind: 'keep-only', addresses })
  }

  /** The listening sockets as a secondary has them: those of the primary, which alone opens and closes them. */
  get sharedSockets(): ListeningSockets {
    return { take: (address) => this.#awaitSocket(address), keep: () => {}, keepOnly: async () => {} }
  }

  /** The primary has just opened it, or will in a moment. */
  async #awaitSocket(address: ListeningAddress): Promise<object> {
    for (let attempt = 0; attempt < SOCKET_ATTEMPTS; attempt++) {
      const handle = await this.take(address)
      if (handle) return handle
      await new Promise((resolve) => setTimeout(resolve, SOCKET_PAUSE_MS))
    }
    throw new Error(`The primary does not listen on port ${address.port} of ${address.host}.`)
  }

  #receive(message: SupervisorMessage, handle: SendHandle | undefined): void {
    switch (message.kind) {
      case 'start':
        this.#started.resolve(message)
        break
      case 'stop':
        this.#isStopped = true
        this.#onStop()
        break
      case 'connection':
        if (handle) this.#onConnection(message.connection, handle)
        break
      case 'reply':
        this.#settle(message.id, {
          ...(message.error !== undefined && { error: message.error }),
          ...(handle && { handle }),
        })
        break
    }
  }

  #settle(id: number, reply: Reply): void {
    this.#replies.get(id)?.(reply)
    this.#replies.delete(id)
  }

  #onDisconnect(): void {
    this.#started.resolve({ kind: 'start', term: 1 })
    for (const id of [...this.#replies.keys()]) this.#settle(id, { error: 'The supervisor is gone.' })
    this.#onLost()
  }

  #ask(request: Unnumbered<ServerRequest>): Promise<Reply> {
    if (!process.connected) return Promise.resolve({ error: 'The supervisor is gone.' })
    const id = ++this.#requests
    return new Promise((resolve) => {
      this.#replies.set(id, resolve)
      this.#send({ ...request, id })
    })
  }

  #send(message: ServerMessage & Serializable, handle?: SendHandle): void {
    if (process.connected) process.send?.(message, handle, {}, () => {})
  }
}
