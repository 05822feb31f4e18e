/** The limit of taking an attachment in: `node:http` that hashes what it gets and writes it to a file, flushed before it answers. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { open, unlink } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folder = mkdtempSync(join(tmpdir(), 'settle-bench-'))
process.on('exit', () => rmSync(folder, { recursive: true }))
process.on('SIGTERM', () => process.exit())
let count = 0

async function store(request: IncomingMessage): Promise<string> {
  const path = join(folder, `content-${count++}`)
  const file = await open(path, 'w')
  try {
    const hash = createHash('md5')
    for await (const piece of request) {
      hash.update(piece)
      await file.write(piece)
    }
    await file.datasync()
    return hash.digest('base64')
  } finally {
    await file.close()
    await unlink(path)
  }
}

const server = createServer(async (request, reply) => {
  const digest = await store(request)
  reply.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify({ ok: true, digest }))
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object' && address) process.stdout.write(`http://127.0.0.1:${address.port}/\n`)
})
