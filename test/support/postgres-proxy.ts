/**
 * Stands between an engine and PostgreSQL, on a Unix socket of its own, and cuts connections at the worst moment: right
 * before or right after a commit.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * `before`: the commit never reaches the server. `after`: the server has done it, and its answer is lost. `late`: the client
 * loses its connection, and the commit reaches the server when the test says so.
 */
export type Cut = 'before' | 'after' | 'late'

/** What a message has in it that runs the statement of this name. */
const COMMIT = Buffer.from('\0commit\0')
const HEARTBEAT = Buffer.from('\0beat\0')
/** The first statement of a commit in steps, and the last one. */
const BUMP = Buffer.from('\0bump\0')
const END = Buffer.from('COMMIT\0')
/** Begins to receive messages. */
const LISTEN = Buffer.from('LISTEN "')

export class PostgresProxy {
  readonly folder = mkdtempSync(join(tmpdir(), 'settle-proxy-'))
  #target: string
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Those on which messages among servers are received. */
  readonly #listening = new Set<Socket>()
  #cut: Cut | undefined
  #late: (() => void) | undefined
  #isStalled = false
  /** What was sent meanwhile, to be delivered afterwards. */
  #frozen: (() => void)[] | undefined
  cuts = 0
  heartbeats = 0

  static async open(target: string): Promise<PostgresProxy> {
    const proxy = new PostgresProxy(target)
    await new Promise<void>((resolve) => proxy.#server.listen(join(proxy.folder, '.s.PGSQL.5432'), resolve))
    return proxy
  }

  private constructor(target: string) {
    this.#target = target
    chmodSync(this.folder, 0o755)
    this.#server = createServer((client) => this.#join(client))
  }

  /** Cuts the connection of the next commit. */
  cutNext(cut: Cut): void {
    this.#cut = cut
  }

  /** Lets a late commit reach the server. */
  deliverLate(): void {
    this.#late?.()
    this.#late = undefined
  }

  /** Cuts all connections, and whatever is tried, until it is called again with `false`. */
  stall(isStalled: boolean): void {
    this.#isStalled = isStalled
    if (isStalled) for (const socket of this.#sockets) socket.destroy()
  }

  /** Cuts the connection on which a server receives messages; resolves when the server knows. Others stay. */
  async cutMessages(): Promise<void> {
    const cut = [...this.#listening].map((socket) => {
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.end()
      return closed
    })
    await Promise.all(cut)
  }

  /** New connections go to another server from now on; those that are open are cut. */
  redirect(target: string): void {
    this.#target = target
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Nothing passes in either direction, and no connection is closed. */
  freeze(): void {
    this.#frozen ??= []
  }

  /** What waited goes on its way, where its connection is still there. */
  thaw(): void {
    const waiting = this.#frozen ?? []
    this.#frozen = undefined
    for (const deliver of waiting) deliver()
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
    rmSync(this.folder, { recursive: true, force: true })
  }

  #join(client: Socket): void {
    if (this.#isStalled) {
      client.destroy()
      return
    }
    const server = connect(this.#target)
    let isAnswerLost = false
    let isInSteps = false
    const pass = (socket: Socket, data: Buffer) => {
      if (this.#frozen) this.#frozen.push(() => socket.writable && socket.write(data))
      else socket.write(data)
    }
    const end = () => {
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('error', end).on('close', () => {
        this.#sockets.delete(socket)
        this.#listening.delete(socket)
      })
    }
    server.on('close', end)
    server.on('data', (data: Buffer) => {
      if (isAnswerLost) end()
      else pass(client, data)
    })
    let isHeld = false
    client.on('close', () => {
      if (!isHeld) end()
    })
    client.on('data', (data: Buffer) => {
      if (data.includes(HEARTBEAT)) this.heartbeats++
      if (data.includes(BUMP)) isInSteps = true
      if (data.includes(LISTEN)) this.#listening.add(client)
      const isCommit = data.includes(COMMIT) || (isInSteps && data.includes(END))
      const cut = isCommit ? this.#cut : undefined
      if (cut === undefined) {
        pass(server, data)
        return
      }
      this.#cut = undefined
      this.cuts++
      if (cut === 'before') end()
      else if (cut === 'after') {
        isAnswerLost = true
        server.write(data)
      } else {
        isHeld = true
        this.#late = () => server.write(data)
        client.destroy()
      }
    })
  }
}
