/** The limit of a GET: `node:http` with a constant of as many bytes as the argument says. */
import { createServer } from 'node:http'

const body = Buffer.from(`{"text":"${'x'.repeat(Number(process.argv[2]) - 11)}"}`)
const server = createServer((_request, reply) => {
  reply.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  reply.end(body)
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object' && address) process.stdout.write(`http://127.0.0.1:${address.port}/\n`)
})
