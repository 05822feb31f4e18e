/** Bodies that come packed: unpacked as they come in, so that neither form is held beyond a limit. */
import { once } from 'node:events'
import { createGunzip, type Gunzip } from 'node:zlib'
import { badRequest, RequestError, tooLarge } from '../../document/request-error.ts'
import { GrowingBuffer } from '../../runtime/growing-buffer.ts'
import { BudgetExceededError, type MemoryLease } from '../../runtime/memory-budget.ts'
import { BodyAbortedError } from '../../wire/request.ts'

/** What the pieces of a gzip stream unpack to, up to a limit. Its memory is asked of the lease. */
export async function unpackedBytes(
  pieces: AsyncIterable<Buffer>,
  limit: number,
  lease: MemoryLease | undefined,
): Promise<Buffer> {
  const gunzip = createGunzip()
  const unpacking = collectFrom(gunzip, limit, lease)
  // Heard of below, at the latest when all is fed.
  unpacking.catch(() => {})
  try {
    await feed(gunzip, pieces, unpacking)
    return await unpacking
  } catch (error) {
    if (isOfClient(error)) throw error
    throw badRequest('The body is not what its Content-Encoding says.')
  } finally {
    gunzip.destroy()
  }
}

async function collectFrom(gunzip: Gunzip, limit: number, lease: MemoryLease | undefined): Promise<Buffer> {
  const all = new GrowingBuffer()
  try {
    for await (const piece of gunzip) {
      if (all.length + piece.length > limit) throw tooLarge()
      const waiting = lease?.add(all.growthFor(piece.length))
      if (waiting) await waiting
      all.add(piece)
    }
    return await all.take()
  } catch (error) {
    all.free()
    throw error
  }
}

/** Ends with the failure of the unpacking, be the client still sending or not. */
async function feed(gunzip: Gunzip, pieces: AsyncIterable<Buffer>, unpacking: Promise<Buffer>): Promise<void> {
  const iterator = pieces[Symbol.asyncIterator]()
  for (;;) {
    const next = iterator.next()
    next.catch(() => {})
    const result = await Promise.race([next, unpacking])
    if (Buffer.isBuffer(result)) return
    if (result.done === true) break
    if (!gunzip.write(result.value)) await Promise.race([once(gunzip, 'drain'), unpacking])
  }
  gunzip.end()
}

function isOfClient(error: unknown): boolean {
  return error instanceof RequestError || error instanceof BodyAbortedError || error instanceof BudgetExceededError
}
