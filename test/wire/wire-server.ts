/** A server of nothing but connections, and one of Node's own to hold it against. */
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { Connection, type RequestHandler } from '../../src/wire/connection.ts'
import { RawConnection } from '../support/client.ts'

export interface WireServer {
  readonly connections: readonly Connection[]
  open(): Promise<RawConnection>
}

export async function wireServer(handler: RequestHandler): Promise<WireServer> {
  const connections: Connection[] = []
  const server = createServer({ noDelay: true }, (socket) => {
    connections.push(new Connection(socket, handler))
  })
  const open = await listening(server)
  onTestFinished(() => {
    for (const connection of connections) connection.destroy()
  })
  return { connections, open }
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
