/** A load balancer for tests: gives each connection to the next server, and passes its bytes, its end and its reset. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export class Balancer {
  readonly #targets: () => readonly string[]
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #turn = 0
  #url = ''

  constructor(targets: () => readonly string[]) {
    this.#targets = targets
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#pass(client))
  }

  /** Known once it listens. */
  get url(): string {
    return this.#url
  }

  async listen(port: number): Promise<void> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    const { protocol } = new URL(this.#targets()[0] ?? '')
    this.#url = `${protocol}//127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #pass(client: Socket): void {
    const targets = this.#targets()
    const target = targets[this.#turn++ % targets.length]
    // A server that is being closed has no address.
    if (!target) {
      client.destroy()
      return
    }
    const { hostname, port } = new URL(target)
    const server = connect({ host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true })
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from)
      from.on('error', () => to.resetAndDestroy())
      from.on('close', () => {
        this.#sockets.delete(from)
        to.destroySoon()
      })
      from.pipe(to)
    }
  }
}
