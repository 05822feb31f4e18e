/** A proxy before a server that breaks connections off after some bytes, in either direction. */
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface CuttingProxy {
  readonly url: string
  /** The next connections pass so many bytes together, then all break off. Infinite: none does. */
  allow(bytes: number): void
}

export async function cuttingProxy(target: string): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target)
  const open = new Set<Socket>()
  let left = Number.POSITIVE_INFINITY
  const count = (bytes: number) => {
    left -= bytes
    if (left <= 0) for (const socket of open) socket.destroy()
  }
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(from)
      from.on('data', (piece) => {
        count(piece.length)
        if (left > 0 && !to.write(piece)) from.pause()
      })
      to.on('drain', () => from.resume())
      from.on('error', () => {})
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    for (const socket of open) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.')
  return {
    url: `http://127.0.0.1:${address.port}/`,
    allow: (bytes) => {
      left = bytes
    },
  }
}
