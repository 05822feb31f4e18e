/** A connection to a server of several nodes, and which of their processes have it. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'

export interface PlacedReply {
  readonly status: number
  readonly body: string
}

export class PlacedConnection {
  readonly #socket: Socket
  readonly #serverPort: number
  readonly #clientPort: number
  #received = Buffer.alloc(0)
  readonly #replies: PlacedReply[] = []
  #isClosed = false
  /** Called when something has come, or nothing will. */
  #wake = () => {}

  static open(url: string): Promise<PlacedConnection> {
    const { hostname, port } = new URL(url)
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => resolve(new PlacedConnection(socket, Number(port))))
      socket.setNoDelay(true).once('error', reject)
    })
  }

  /** One that this process has accepted. */
  static async openAt(url: string, pid: number): Promise<PlacedConnection> {
    for (;;) {
      const connection = await PlacedConnection.open(url)
      await connection.request('GET', '/')
      if (connection.holders([pid]).length === 1) return connection
      connection.close()
    }
  }

  private constructor(socket: Socket, serverPort: number) {
    this.#socket = socket
    this.#serverPort = serverPort
    this.#clientPort = socket.localPort ?? 0
    socket
      .on('data', (bytes) => this.#receive(bytes))
      .on('error', () => {})
      .on('close', () => {
        this.#isClosed = true
        this.#wake()
      })
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Those of the processes that have the server's end of it. */
  holders(pids: readonly number[]): number[] {
    const inode = this.#inode()
    return pids.filter((pid) => inode !== undefined && descriptorsOf(pid).includes(`socket:[${inode}]`))
  }

  write(bytes: string | Buffer): void {
    this.#socket.write(bytes)
  }

  async request(method: string, path: string, body?: unknown): Promise<PlacedReply> {
    this.write(requestText(method, path, body))
    const [reply] = await this.replies(1)
    if (!reply) throw new Error('There is no reply.')
    return reply
  }

  /** The next so many; fewer where the connection is closed before. */
  async replies(count: number): Promise<PlacedReply[]> {
    while (this.#replies.length < count && !this.#isClosed) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      await promise
    }
    return this.#replies.splice(0, count)
  }

  close(): void {
    this.#socket.destroy()
  }

  #receive(bytes: Buffer): void {
    this.#received = Buffer.concat([this.#received, bytes])
    this.#takeReplies()
    this.#wake()
  }

  #takeReplies(): void {
    for (;;) {
      const end = this.#received.indexOf('\r\n\r\n')
      if (end < 0) return
      const head = this.#received.toString('latin1', 0, end)
      const size = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Number.NaN)
      if (Number.isNaN(size)) throw new Error(`This reply is not understood: ${head}`)
      const bodyEnd = end + 4 + size
      if (this.#received.length < bodyEnd) return
      this.#replies.push({ status: Number(head.slice(9, 12)), body: this.#received.toString('utf8', end + 4, bodyEnd) })
      this.#received = this.#received.subarray(bodyEnd)
    }
  }

  #inode(): string | undefined {
    const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n')
    const fields = lines.map((line) => line.trim().split(/\s+/))
    const isOurs = ([, local = '', remote = '']: string[]) =>
      local.endsWith(hexadecimal(this.#serverPort)) && remote.endsWith(hexadecimal(this.#clientPort))
    return fields.find(isOurs)?.[9]
  }
}

export function requestText(method: string, path: string, body?: unknown): string {
  const text = body === undefined ? '' : JSON.stringify(body)
  const lines = body === undefined ? '' : `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n`
  return `${method} ${path} HTTP/1.1\r\nHost: x\r\n${lines}\r\n${text}`
}

function hexadecimal(port: number): string {
  return `:${port.toString(16).toUpperCase().padStart(4, '0')}`
}

/** What they lead to. */
function descriptorsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${name}`)]
      } catch {
        return []
      }
    })
  } catch {
    return []
  }
}
