/** Uploads an attachment of any size to a server of its own and reads it back, and reports the memory that it took. */
import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { expect } from 'vitest'
import { ServerProcess } from '../../crash/server-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

export interface LargeUpload {
  /** The most that the server ever had in memory, mapped files included. */
  readonly peakBytes: number
  /** Small writes to the same database that were answered meanwhile, and the longest that one of them took. */
  readonly writes: number
  readonly slowestWriteMs: number
}

const PIECE_BYTES = 256 * 1024

export async function uploadLarge(sizeBytes: number): Promise<LargeUpload> {
  const server = new ServerProcess(await temporaryFolder())
  try {
    const database = `${await server.url()}large`
    expect((await fetch(database, { method: 'PUT' })).status).toBe(201)
    const md5 = createHash('md5')
    let isUploading = true
    let slowestWriteMs = 0
    let writes = 0
    const writing = (async () => {
      for (let i = 0; isUploading; i++) {
        const begun = performance.now()
        expect((await fetch(`${database}/small-${i}`, { method: 'PUT', body: '{}' })).status).toBe(201)
        slowestWriteMs = Math.max(slowestWriteMs, performance.now() - begun)
        if (isUploading) writes++
      }
    })()
    const status = await put(`${database}/document/content`, pieces(sizeBytes, md5))
    isUploading = false
    await writing
    expect(status).toBe(201)
    // Before it is read: what LMDB reads is mapped, and counts until the system wants the room.
    const { peakBytes } = server
    const stub = await (await fetch(`${database}/document`)).text()
    const digest = md5.digest('base64')
    expect(JSON.parse(stub)._attachments.content).toMatchObject({ digest: `md5-${digest}`, length: sizeBytes })
    expect(await downloadedMd5(`${database}/document/content`)).toBe(digest)
    expect(server.residentBytes).toBeLessThan(512 * 1024 * 1024)
    return { peakBytes, writes, slowestWriteMs }
  } finally {
    await server.stop()
  }
}

/** Random, so that nothing can be packed, and one piece again and again, so that making them costs nothing. */
async function* pieces(sizeBytes: number, md5: ReturnType<typeof createHash>): AsyncGenerator<Buffer> {
  const piece = randomBytes(PIECE_BYTES)
  for (let sent = 0; sent < sizeBytes; sent += PIECE_BYTES) {
    const next = piece.subarray(0, Math.min(PIECE_BYTES, sizeBytes - sent))
    md5.update(next)
    yield next
  }
}

async function put(url: string, content: AsyncGenerator<Buffer>): Promise<number | undefined> {
  const outgoing = request(url, { method: 'PUT', headers: { 'Content-Type': 'application/octet-stream' } })
  const status = new Promise<number | undefined>((resolve, reject) => {
    outgoing.on('response', (response) => response.resume().on('end', () => resolve(response.statusCode)))
    outgoing.on('error', reject)
  })
  await pipeline(Readable.from(content), outgoing)
  return status
}

async function downloadedMd5(url: string): Promise<string> {
  const md5 = createHash('md5')
  const { body } = await fetch(url)
  for await (const piece of body ?? []) md5.update(piece)
  return md5.digest('base64')
}
