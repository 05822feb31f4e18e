/**
 * Where a command asks the server whose data folder it reads before it opens a file: commits to that store are paused
 * meanwhile. A Unix socket in the folder, or elsewhere if its path is too long; a file in the folder has the address.
 */
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { FileOpenings, isValid, type OpenableStores, type OpeningReply } from '../storage/leases/file-openings.ts'
import { processIdentity } from '../storage/leases/process-records.ts'
import { Channel, NodeUnreachableError } from './channel.ts'

/** Beside the records of the server's processes. */
const FOLDER = '.servers'
const SOCKET = 'opening.sock'
const ADDRESS = 'opening.address'
/** The shortest limit of a system is 104. */
const LONGEST_PATH_BYTES = 100
/** Every check has one. Others are closed, and try again. */
const MOST_CONNECTIONS = 64
/** A connection that nothing came from for this long is closed. A command that still needs one connects again. */
const IDLE_MS = 60_000
/** A call has two names in it. */
const LARGEST_CALL_BYTES = 64 * 1024
/** How often it is looked whether a process has ended. */
const DEATH_POLL_MS = 20

export type OpenedKind = 'databases' | 'indexes'

/** Asks to open a file. The folder is that of the server, so the name of the file is enough. */
interface OpeningCall {
  readonly kind: OpenedKind
  readonly name: string
  readonly fileName: string
  readonly pid: number
  /** As the command itself sees it: it may have another view of the processes than the server, where both are in containers. */
  readonly identity: string | undefined
}

/** After the file was opened: the number of the reply. */
interface OpenedSignal {
  readonly number: number
}

export interface OpeningStores {
  readonly folder: string
  readonly stores: OpenableStores
}

export interface OpeningOptions {
  /** The data folder. */
  readonly folder: string
  readonly kinds: Readonly<Record<OpenedKind, OpeningStores>>
  /** How long a process may take to open a file. */
  timeoutMs(): number
  /** Hears of a process that did not open a file in time. */
  onKilled(pid: number): void
}

/** A process that is connected. */
interface Opener {
  /** Of the process that was last allowed to open a file. */
  process: { readonly pid: number; readonly identity: string } | undefined
  /** Calls that are not answered yet. */
  calls: number
}

export class OpeningSocket {
  readonly #options: OpeningOptions
  readonly #server: Server
  readonly #channels = new Map<Channel, Opener>()
  readonly #openings: FileOpenings
  #made: readonly string[] = []

  /** Rejects where no socket can be made. */
  static async listen(options: OpeningOptions): Promise<OpeningSocket> {
    const socket = new OpeningSocket(options)
    const folder = join(options.folder, FOLDER)
    await mkdir(folder, { recursive: true })
    const address = await socket.#listen(folder)
    await writeFile(join(folder, ADDRESS), `${address}\n`)
    socket.#made = [...socket.#made, join(folder, ADDRESS)]
    return socket
  }

  private constructor(options: OpeningOptions) {
    this.#options = options
    this.#openings = new FileOpenings(options.timeoutMs)
    this.#server = createServer((socket) => this.#serve(socket))
    this.#server.maxConnections = MOST_CONNECTIONS
    // It does not keep the process alive.
    this.#server.unref()
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (let idle = this.#openings.idle(); idle; idle = this.#openings.idle()) await idle
    for (const channel of this.#channels.keys()) channel.destroy()
    await closed
    for (const each of this.#made) await rm(each, { recursive: true, force: true }).catch(() => {})
  }

  async #listen(folder: string): Promise<string> {
    const inFolder = join(folder, SOCKET)
    // A server that was killed leaves its socket file behind.
    await rm(inFolder, { force: true })
    if (Buffer.byteLength(inFolder) <= LONGEST_PATH_BYTES && (await this.#listensAt(inFolder))) {
      this.#made = [inFolder]
      return inFolder
    }
    const elsewhere = await mkdtemp(join(tmpdir(), 'settle-'))
    this.#made = [elsewhere]
    if (await this.#listensAt(join(elsewhere, SOCKET))) return join(elsewhere, SOCKET)
    await rm(elsewhere, { recursive: true, force: true })
    throw new Error(`There is no socket in ${folder}, nor in ${elsewhere}.`)
  }

  /** Some file systems have no sockets. */
  async #listensAt(path: string): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    this.#server.once('error', () => resolve(false)).listen(path, () => resolve(true))
    const isListening = await promise
    this.#server.removeAllListeners('error')
    if (!isListening) return false
    // A connection that is not accepted for lack of descriptors is tried again.
    this.#server.on('error', () => {})
    // Whoever may connect can have commits paused and the server kill processes of its user, whatever the umask is.
    await chmod(path, 0o600)
    return true
  }

  #serve(socket: Socket): void {
    const opener: Opener = { process: undefined, calls: 0 }
    const channel: Channel = new Channel(
      socket,
      {
        signal: (message) => {
          if (isOpenedSignal(message)) this.#openings.end(channel, message.number)
          else channel.destroy()
        },
        call: async (message, signal) => {
          opener.calls++
          try {
            return await this.#letOpen(channel, opener, message, signal)
          } finally {
            opener.calls--
          }
        },
        closed: () => void this.#closed(channel, opener),
      },
      { largestFrameBytes: LARGEST_CALL_BYTES },
    )
    this.#channels.set(channel, opener)
    socket.setTimeout(IDLE_MS, () => {
      if (opener.calls === 0 && !this.#openings.isOpening(channel)) channel.destroy()
    })
  }

  /** A process that closes its connection and lives could still open the file: it is killed if it does not end. */
  async #closed(channel: Channel, { process }: Opener): Promise<void> {
    this.#channels.delete(channel)
    while (process && this.#openings.isOpening(channel) && processIdentity(process.pid) === process.identity) {
      await new Promise((resolve) => setTimeout(resolve, DEATH_POLL_MS))
    }
    this.#openings.left(channel)
  }

  async #letOpen(channel: Channel, opener: Opener, call: unknown, signal: AbortSignal): Promise<OpeningReply> {
    if (!isOpeningCall(call)) throw new Error('The call is unknown.')
    const { pid, identity, kind, name, fileName } = call
    // It must be possible to kill it, if it does not open the file in time.
    if (identity === undefined || identity !== processIdentity(pid) || !canKill(pid)) {
      throw new Error('Run the command on the machine of the server, in the same container, and as the same user.')
    }
    opener.process = { pid, identity }
    const { folder, stores } = this.#options.kinds[kind]
    const place = { name, path: join(folder, basename(fileName)) }
    return this.#openings.begin(channel, { stores, place, signal, kill: () => this.#kill(pid, identity) })
  }

  #kill(pid: number, identity: string): void {
    if (processIdentity(pid) !== identity) return
    this.#options.onKilled(pid)
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has just ended.
    }
  }
}

function isOpenedSignal(message: unknown): message is OpenedSignal {
  return typeof message === 'object' && message !== null && 'number' in message && typeof message.number === 'number'
}

function isOpeningCall(message: unknown): message is OpeningCall {
  if (typeof message !== 'object' || message === null) return false
  const { kind, name, fileName, pid, identity }: Partial<Record<keyof OpeningCall, unknown>> = message
  const isNamed = typeof name === 'string' && typeof fileName === 'string'
  const isKind = kind === 'databases' || kind === 'indexes'
  const isProcess = Number.isSafeInteger(pid) && Number(pid) > 0
  return isKind && isNamed && isProcess && (identity === undefined || typeof identity === 'string')
}

function canKill(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** The other end. Connects when it is needed, and again to a server that was restarted. */
export class OpeningClient {
  readonly #addressFile: string
  #channel: Channel | undefined

  /** For the server that uses this data folder. */
  constructor(folder: string) {
    this.#addressFile = join(folder, FOLDER, ADDRESS)
  }

  /**
   * Calls back in a moment in which nobody writes to the store; `moved` where it has another file by now, `gone` where the server
   * does not have it. Rejects with `NodeUnreachableError` where there is no server, with `CallFailedError` where it refuses.
   */
  async open<T>(
    kind: OpenedKind,
    { name, path }: { readonly name: string; readonly path: string },
    open: () => T,
  ): Promise<{ readonly opened: T } | 'moved' | 'gone'> {
    const { pid } = process
    const call: OpeningCall = { kind, name, fileName: basename(path), pid, identity: processIdentity(pid) }
    for (;;) {
      const channel = await this.#connected()
      const reply = (await channel.call(call)) as OpeningReply
      if (typeof reply === 'string') return reply
      try {
        if (isValid(reply)) return { opened: open() }
      } finally {
        channel.send({ number: reply.number } satisfies OpenedSignal)
      }
    }
  }

  close(): void {
    this.#channel?.end()
  }

  async #connected(): Promise<Channel> {
    if (this.#channel && !this.#channel.isClosed) return this.#channel
    const socket = await this.#connect()
    this.#channel = new Channel(socket, { signal: () => {}, call: async () => undefined, closed: () => {} })
    return this.#channel
  }

  async #connect(): Promise<Socket> {
    try {
      const address = (await readFile(this.#addressFile, 'utf8')).trim()
      // The folder may have another path for the server.
      const local = join(dirname(this.#addressFile), SOCKET)
      const isLocal = address.endsWith(join(FOLDER, SOCKET)) && Buffer.byteLength(local) <= LONGEST_PATH_BYTES
      const socket = createConnection(isLocal ? local : address)
      await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
      return socket
    } catch (error) {
      throw new NodeUnreachableError(`The server cannot be reached: ${String(error)}`)
    }
  }
}
