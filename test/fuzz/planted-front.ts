/** A front that passes everything on and has one bug, so that the fuzzer shows that it finds bugs of that kind. */
import { once } from 'node:events'
import { request } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** Returns, where it delays replies, what to wait for before the end is passed on. */
type Front = (client: Socket, server: Socket, url: URL) => (() => Promise<void>) | void

const LEAKED_BYTES = 256 * 1024
const leaked: Buffer[] = []

const plants: Readonly<Record<string, Front>> = {
  /** An exception that nobody catches. */
  crash: (client, server) => {
    client.on('data', (bytes) => {
      if (bytes.includes('_revs_diff')) throw new Error('Planted.')
      server.write(bytes)
    })
    server.on('data', (bytes) => client.write(bytes))
  },
  /** A refusal becomes an error of the server. */
  'wrong status': (client, server) => {
    client.on('data', (bytes) => server.write(bytes))
    server.on('data', (bytes) => {
      const text = bytes.toString('latin1')
      client.write(text.replace(/^HTTP\/1\.1 409 Conflict/, 'HTTP/1.1 500 Internal Server Error'), 'latin1')
    })
  },
  /** Some requests are never answered, and the end of the client is not noticed. */
  hang: (client, server) => {
    client.on('data', (bytes) => {
      if (!bytes.includes('_bulk_get')) server.write(bytes)
    })
    client.removeAllListeners('end')
    server.on('data', (bytes) => client.write(bytes))
  },
  /** Every connection leaves something behind. */
  leak: (client, server) => {
    leaked.push(Buffer.alloc(LEAKED_BYTES, 1))
    client.on('data', (bytes) => server.write(bytes))
    server.on('data', (bytes) => client.write(bytes))
  },
  /** A write that is refused with a conflict has written something all the same. */
  'half a write': (client, server, url) => {
    let database = ''
    client.on('data', (bytes) => {
      database = /^\S+ \/(fuzz-[a-j]+)\//.exec(bytes.toString('latin1'))?.[1] ?? database
      server.write(bytes)
    })
    let sending = Promise.resolve()
    server.on('data', (bytes) => {
      sending = sending.then(async () => {
        if (/^HTTP\/1\.1 409/.test(bytes.toString('latin1')) && database !== '') await writeBehind(url, database)
        client.write(bytes)
      })
    })
    return () => sending
  },
}

async function writeBehind(url: URL, database: string): Promise<void> {
  const headers = { Authorization: `Basic ${btoa('admin:secret')}` }
  const path = `/${database}/_local/planted-${leaked.push(Buffer.alloc(0))}`
  const outgoing = request({ hostname: url.hostname, port: url.port, method: 'PUT', path, headers }).end('{}')
  const [response] = await once(outgoing, 'response')
  response.resume()
}

export async function plantedFront(serverUrl: string, name: string): Promise<string> {
  const url = new URL(serverUrl)
  const plant = plants[name]
  if (!plant) throw new Error(`There is no plant ${name}.`)
  const front = createServer({ allowHalfOpen: true }, (client) => {
    const server = connect({ port: Number(url.port), host: url.hostname, allowHalfOpen: true })
    client.on('error', () => server.destroy()).on('end', () => server.end())
    server.on('error', () => client.destroy())
    const sent = plant(client, server, url)
    server.on('end', async () => {
      await sent?.()
      client.end()
    })
  })
  await once(front.listen(0, '127.0.0.1'), 'listening')
  front.unref()
  return `http://127.0.0.1:${(front.address() as AddressInfo).port}/`
}
