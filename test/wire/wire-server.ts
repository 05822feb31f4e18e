/** A server of nothing but connections, and one of Node's own to hold it against. */
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { Connection, type RequestHandler } from '../../src/wire/connection.ts'
import { RawConnection } from '../support/client.ts'
import { until } from '../support/until.ts'

export interface WireServer {
  readonly connections: readonly Connection[]
  /** Of the connections, on the side of the server. */
  readonly sockets: readonly Socket[]
  /** Resolves when the newest connection has read and handled so many bytes in all, or is closed. */
  arrived(bytes: number): Promise<void>
  open(): Promise<RawConnection>
}

export async function wireServer(handler: RequestHandler): Promise<WireServer> {
  const connections: Connection[] = []
  const sockets: Socket[] = []
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    sockets.push(socket)
    connections.push(new Connection(socket, handler))
  })
  const open = await listening(server)
  onTestFinished(() => {
    for (const connection of connections) connection.destroy()
  })
  const arrived = async (bytes: number) => {
    await until(async () => {
      const socket = sockets.at(-1)
      return socket !== undefined && (socket.bytesRead >= bytes || socket.destroyed)
    })
    await turns()
  }
  return { connections, sockets, open, arrived }
}

/** Lets everything else go first, some times over: what has arrived is handled then. */
export async function turns(count = 4): Promise<void> {
  for (let i = 0; i < count; i++) await nextTurn()
}

/** Resolves when a number has not changed for many turns. */
export async function settled(read: () => number): Promise<void> {
  for (let same = 0, last = read(); same < 50; same++) {
    await nextTurn()
    const now = read()
    if (now !== last) same = 0
    last = now
  }
}

/** What a server made of a request. */
export interface Understood {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, unknown>>
  /** Undefined while it is not all there. */
  body: string | undefined
}

/** Notes the requests that it gets, and answers each with nothing. */
export async function nodeServer(noted: Understood[]): Promise<() => Promise<RawConnection>> {
  const server = createHttpServer(async (request, response) => {
    const { method = '', url = '', headers } = request
    const understood: Understood = { method, url, headers, body: undefined }
    noted.push(understood)
    try {
      understood.body = (await buffer(request)).toString('latin1')
      response.end()
    } catch {
      response.destroy()
    }
  })
  onTestFinished(() => server.closeAllConnections())
  return listening(server)
}

async function listening(server: Server): Promise<() => Promise<RawConnection>> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return () => RawConnection.open(new URL(`http://127.0.0.1:${port}/`))
}
