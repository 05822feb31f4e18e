/**
 * What long bodies cost: processor time a gigabyte, up and down, of this server's `wire/` and of `node:http` side by side.
 * Each server does nothing but read, or send. Run: npm run bench:bodies
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpServer, request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { Connection } from '../src/wire/connection.ts'

const BODY_BYTES = 512 * 1024 * 1024
const PIECE = Buffer.alloc(64 * 1024, 'x')
const ROUNDS = 3

type Kind = 'wire' | 'node:http'
type Way = 'upload' | 'upload in chunks' | 'download'

/** Not through a pipeline of streams: the fewest steps that each of the two offers. */
function wireServer() {
  return createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    new Connection(socket, async ({ method, body }, reply) => {
      if (method === 'PUT') {
        for await (const piece of body.read()) void piece
        reply.send(200, '', '')
        return
      }
      reply.begin(200, '', BODY_BYTES)
      for (let sent = 0; sent < BODY_BYTES; sent += PIECE.length) if (!reply.write(PIECE)) await reply.drained()
      reply.end()
    })
  })
}

function nodeServer() {
  return createHttpServer(async (incoming, reply) => {
    if (incoming.method === 'PUT') {
      for await (const piece of incoming) void piece
      reply.end()
      return
    }
    reply.writeHead(200, { 'Content-Length': BODY_BYTES })
    for (let sent = 0; sent < BODY_BYTES; sent += PIECE.length) {
      if (!reply.write(PIECE)) await once(reply, 'drain')
    }
    reply.end()
  })
}

/** The child: serves, and tells its processor time whenever it is asked. */
async function serve(kind: Kind): Promise<void> {
  const server = kind === 'wire' ? wireServer() : nodeServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  process.send?.((server.address() as AddressInfo).port)
  process.on('message', () => process.send?.(process.cpuUsage()))
  process.on('disconnect', () => process.exit())
}

async function transfer(port: number, way: Way): Promise<void> {
  const isUpload = way !== 'download'
  const headers: Record<string, string | number> = way === 'upload' ? { 'Content-Length': BODY_BYTES } : {}
  const outgoing = request({ host: '127.0.0.1', port, method: isUpload ? 'PUT' : 'GET', headers, agent: false })
  if (isUpload) {
    for (let sent = 0; sent < BODY_BYTES; sent += PIECE.length) {
      if (!outgoing.write(PIECE)) await once(outgoing, 'drain')
    }
  }
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  response.resume()
  await once(response, 'end')
}

async function main(): Promise<void> {
  const kinds: readonly Kind[] = ['wire', 'node:http']
  const servers = await Promise.all(
    kinds.map(async (kind) => {
      const child = fork(import.meta.filename, [kind])
      const [port] = (await once(child, 'message')) as [number]
      return { kind, child, port }
    }),
  )
  const seconds = async ({ child }: (typeof servers)[number]) => {
    child.send('use')
    const [{ user, system }] = (await once(child, 'message')) as [NodeJS.CpuUsage]
    return (user + system) / 1e6
  }
  console.log('way                 wire s/GB   node:http s/GB   ratio')
  for (const way of ['upload', 'upload in chunks', 'download'] as const) {
    const used = new Map<Kind, number>(kinds.map((kind) => [kind, 0]))
    // One after the other, so that a busy machine is busy for both.
    for (let round = 0; round <= ROUNDS; round++) {
      for (const server of servers) {
        const before = await seconds(server)
        await transfer(server.port, way)
        // The first round warms up.
        if (round > 0) used.set(server.kind, used.get(server.kind)! + (await seconds(server)) - before)
      }
    }
    const [own, other] = kinds.map((kind) => (used.get(kind)! / ROUNDS) * (1024 ** 3 / BODY_BYTES)) as [number, number]
    console.log(
      `${way.padEnd(18)}  ${own.toFixed(2).padStart(9)}  ${other.toFixed(2).padStart(15)}  ${(own / other).toFixed(2).padStart(6)}`,
    )
  }
  for (const { child } of servers) child.disconnect()
}

const [, , kind] = process.argv
if (kind === 'wire' || kind === 'node:http') await serve(kind)
else await main()
