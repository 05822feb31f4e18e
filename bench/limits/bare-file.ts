/** The limit of reading an attachment: `node:http` that streams a file of as many bytes as the argument says. */
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const size = Number(process.argv[2])
const folder = mkdtempSync(join(tmpdir(), 'settle-bench-'))
const file = join(folder, 'content')
writeFileSync(file, Buffer.alloc(size, 'x'))
process.on('exit', () => rmSync(folder, { recursive: true }))
process.on('SIGTERM', () => process.exit())

const server = createServer((_request, reply) => {
  reply.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': size })
  createReadStream(file, { highWaterMark: 256 * 1024 }).pipe(reply)
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object' && address) process.stdout.write(`http://127.0.0.1:${address.port}/\n`)
})
