/** An attachment that is larger than the memory that either server may take for it. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { expect } from 'vitest'
import { ServerProcess } from '../../crash/server-process.ts'
import { Client } from '../../support/client.ts'

export interface LargeAttachmentRun {
  readonly sizeBytes: number
  readonly limitBytes: number
  readonly direction: 'push' | 'pull'
  /** For the data of the two servers. */
  readonly folders: readonly [here: string, there: string]
}

const PIECE_BYTES = 1024 * 1024
const SAMPLE_MS = 20

/** Neither server holds more than the limit in memory of its own at any time. */
export async function replicateLargeAttachment(run: LargeAttachmentRun): Promise<void> {
  const { sizeBytes, limitBytes, direction, folders } = run
  const [here, there] = [new ServerProcess(folders[0]), new ServerProcess(folders[1])]
  let peakBytes = 0
  const sampling = setInterval(() => {
    peakBytes = Math.max(peakBytes, here.residentBytes, there.residentBytes)
  }, SAMPLE_MS)
  try {
    const urls = [await here.url(), await there.url()]
    const [sourceAt, targetAt] = direction === 'push' ? [urls[0], urls[1]] : [urls[1], urls[0]]
    await send('PUT', `${sourceAt}source`)
    await send('PUT', `${targetAt}target`)
    const uploaded = createHash('sha256')
    const content = Readable.toWeb(Readable.from(pieces(sizeBytes, uploaded)))
    const upload = await fetch(`${sourceAt}source/doc/large.bin`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/octet-stream' },
      body: content,
      duplex: 'half',
    })
    expect(upload.status, await upload.text()).toBe(201)
    const body = direction === 'push' ? { source: 'source', target: `${targetAt}target` } : undefined
    await send('POST', `${urls[0]}_replicate`, body ?? { source: `${sourceAt}source`, target: 'target' })
    const received = createHash('sha256')
    const reply = await fetch(`${targetAt}target/doc/large.bin`)
    let bytes = 0
    for await (const piece of reply.body ?? []) {
      received.update(piece)
      bytes += piece.length
    }
    expect([bytes, received.digest('hex')]).toEqual([sizeBytes, uploaded.digest('hex')])
    expect(peakBytes).toBeLessThan(limitBytes)
  } finally {
    clearInterval(sampling)
    await Promise.all([here.kill(), there.kill()])
  }
}

/** Bytes that no storage could make smaller by itself, each piece another. */
async function* pieces(sizeBytes: number, hash: ReturnType<typeof createHash>): AsyncGenerator<Buffer> {
  for (let sent = 0; sent < sizeBytes; sent += PIECE_BYTES) {
    const seed = createHash('sha512').update(String(sent)).digest()
    const piece = Buffer.alloc(Math.min(PIECE_BYTES, sizeBytes - sent), seed)
    hash.update(piece)
    yield piece
  }
}

/** `fetch` gives up when a reply takes five minutes to begin, as that of a replication may. */
async function send(method: string, url: string, body?: unknown): Promise<void> {
  const { origin, pathname } = new URL(url)
  const client = new Client(origin)
  const reply = await client.request(method, pathname, { body })
  client.close()
  expect(reply.status, reply.text).toBeLessThan(300)
}
