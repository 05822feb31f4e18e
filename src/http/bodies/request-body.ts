/** The body of a request: read up to a limit, decompressed, and checked. */

import { once } from 'node:events'
import { createGunzip, type Gunzip } from 'node:zlib'
import type { SentDocument } from '../../document/document-fields.ts'
import { badRequest, invalidJson, RequestError, tooLarge } from '../../document/request-error.ts'
import { JsonTextError } from '../../encoding/json/json-text.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { GrowingBuffer } from '../../runtime/growing-buffer.ts'
import { BudgetExceededError, type MemoryLease } from '../../runtime/memory-budget.ts'
import { type ReadingLimits, valueIn } from '../../scan/json-body.ts'
import { BodyAbortedError } from '../../wire/incoming-body.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'

/** The bytes of a JSON body. */
export async function readJsonText(call: Call, { settings }: HttpContext): Promise<Buffer> {
  return readBytes(call, settings.current.largestBody)
}

/** The limits on reading documents from a body. */
export function readingLimits({ memory }: Call, { settings }: HttpContext): ReadingLimits {
  return { memory, largestDocument: settings.current.largestDocument }
}

/** A JSON body with parameters. */
export async function readJson(call: Call, context: HttpContext): Promise<unknown> {
  const text = await readJsonText(call, context)
  return valueIn(text, context.settings.current.mostItems, call.memory)
}

/** A JSON body that must be an object. */
export async function readJsonObject(call: Call, context: HttpContext): Promise<Record<string, unknown>> {
  const value = await readJson(call, context)
  if (!isObject(value)) throw badRequest('Request body must be a JSON object')
  return value
}

export function parsing<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (error instanceof JsonTextError) throw invalidJson()
    throw error
  }
}

/** For requests whose Content-Type must be JSON. */
export function requireJsonType(call: Call): void {
  const [type = ''] = (call.header('content-type') ?? '').split(';')
  if (type.trim().toLowerCase() !== 'application/json') {
    throw new HttpError(415, 'bad_content_type', 'Content-Type must be application/json')
  }
}

/** Whether the body is `multipart/related`. */
export function isRelated(call: Call): boolean {
  return /^multipart\/related\s*;/i.test(call.header('content-type') ?? '')
}

/** The whole body, decompressed, up to a limit. */
export async function readBytes(call: Call, largest: number): Promise<Buffer> {
  const limit = Math.min(largest, call.largestBody)
  const encoding = call.header('content-encoding')?.trim().toLowerCase() ?? 'identity'
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw new HttpError(
      415,
      'bad_content_type',
      `${call.header('content-encoding')} is not a supported content encoding.`,
    )
  }
  checkLength(call, limit)
  const { body } = call.request
  if (encoding === 'gzip') return unpackedBytes(upTo(limit, body.read()), limit, call.memory)
  const bytes = await body.collect(limit, call.memory, sentLength(call))
  if (!bytes) throw tooLarge()
  return bytes
}

/** The most memory of a body that is streamed to the store: chunks that are being filled, and chunks that are being written. */
const STREAM_BYTES = 11 * 1024 * 1024

/** The body as it arrives. */
export function bodyPieces(call: Call): AsyncGenerator<Buffer> {
  checkLength(call, call.largestBody)
  return streamed(call)
}

async function* streamed(call: Call): AsyncGenerator<Buffer> {
  let heldBytes = 0
  for await (const piece of upTo(call.largestBody, call.request.body.read())) {
    // Only bytes that have arrived count: a large Content-Length alone must not use up the budget.
    const moreBytes = Math.min(piece.length, STREAM_BYTES - heldBytes)
    const waiting = call.memory?.add(moreBytes)
    if (waiting) await waiting
    heldBytes += moreBytes
    yield piece
  }
}

async function* upTo(limit: number, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > limit) throw tooLarge()
    yield piece
  }
}

/** A body whose Content-Length is too large is not read. */
function checkLength(call: Call, limit: number): void {
  if ((sentLength(call) ?? 0) > limit) throw tooLarge()
}

/** Undefined where the body is chunked. */
export function sentLength(call: Call): number | undefined {
  const length = call.header('content-length')
  return length === undefined ? undefined : Number(length)
}

/** Collects the whole source, up to a limit. Its memory is taken from the lease. */
export async function collect(source: AsyncIterable<Buffer>, limit: number, lease?: MemoryLease): Promise<Buffer> {
  const all = new GrowingBuffer()
  for await (const piece of source) {
    if (all.length + piece.length > limit) throw tooLarge()
    const waiting = lease?.add(all.growthFor(piece.length))
    if (waiting) await waiting
    all.add(piece)
  }
  return all.take()
}

/**
 * Decompresses a gzip stream as it arrives, so that neither form exceeds the limit. Its memory is taken from the lease.
 */
async function unpackedBytes(
  pieces: AsyncIterable<Buffer>,
  limit: number,
  lease: MemoryLease | undefined,
): Promise<Buffer> {
  const gunzip = createGunzip()
  const unpacking = collectFrom(gunzip, limit, lease)
  // Its error is handled below.
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

/** Ends when the decompression fails, even if the client is still sending. */
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

export function checkDocumentSize(document: SentDocument, context: HttpContext): void {
  checkDocumentSizes([document], context)
}

export function checkDocumentSizes(documents: readonly SentDocument[], { settings }: HttpContext): void {
  const { largestDocument } = settings.current
  for (const { body } of documents) if (body.length > largestDocument) throw tooLarge()
}
