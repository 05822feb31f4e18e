/** Revisions out of the reply of a remote source, one after the other: out of its parts, or out of one JSON text. */

import { readDocument } from '../../document/document-fields.ts'
import { RequestError } from '../../document/request-error.ts'
import { JsonReader, JsonTextError, LongValueError } from '../../encoding/json/json-text.ts'
import { boundaryOf, type Part, possibleFilenames, readParts } from '../../multipart/multipart-reader.ts'
import { TimeSlice } from '../../runtime/time-slice.ts'
import type { HttpReply } from '../client/http-reply.ts'
import { TransientError } from '../client/retries.ts'
import { type FollowingContents, SentTransfer } from './sent-transfer.ts'

const LARGEST_DOCUMENT_BYTES = 256 * 1024 * 1024
const LARGEST_REPLY_BYTES = 512 * 1024 * 1024
const MULTIPART_LIMITS = { headerBytes: 64 * 1024, parts: 1_000_000 }

/** Whether the reply has a part for each revision, or else is JSON. */
export function isMultipart(reply: HttpReply): boolean {
  return /^multipart\//i.test(reply.contentType)
}

/** Each is to be used before the next one is asked for. Parts that say why a revision is missing are left out. */
export async function* revisionsInParts(reply: HttpReply): AsyncGenerator<SentTransfer> {
  const parts = readParts(reply.pieces(), boundaryIn(reply.contentType), MULTIPART_LIMITS)
  try {
    for (let part = await nextPart(parts); part; part = await nextPart(parts)) {
      const type = part.headers.get('content-type') ?? ''
      if (/;\s*error="?true"?/i.test(type)) continue
      if (!/^multipart\//i.test(type)) {
        yield await SentTransfer.read(await collected(part.body))
        continue
      }
      const inner = readParts(damagedToTransient(part.body), boundaryIn(type), MULTIPART_LIMITS)
      try {
        const first = await nextPart(inner)
        if (!first) throw new TransientError('A document has no part.')
        yield await SentTransfer.read(await collected(first.body), new PartContents(inner))
      } finally {
        await inner.return()
      }
    }
  } finally {
    await parts.return()
  }
}

/**
 * The documents of a JSON reply: the values of all members `ok`, wherever the form of the reply has them. `_bulk_get` has
 * lists of results, `open_revs` one list.
 */
export async function revisionsInJson(reply: HttpReply): Promise<SentTransfer[]> {
  const text = await reply.bytes(LARGEST_REPLY_BYTES)
  try {
    return await readAtOnce(text)
  } catch (error) {
    if (error instanceof LongValueError) return readByThreads(text)
    throw error
  }
}

/** Documents up to this size are read right here. */
const SMALL_DOCUMENT_BYTES = 128 * 1024

/** Throws `LongValueError` where one of the documents would take long. */
async function readAtOnce(text: Buffer): Promise<SentTransfer[]> {
  const found: SentTransfer[] = []
  await readEntries(text, (reader) => {
    const start = reader.position
    const document = reader.within(SMALL_DOCUMENT_BYTES, () => readDocument(reader))
    found.push(SentTransfer.of(text.subarray(start, reader.position), document))
  })
  return found
}

async function readByThreads(text: Buffer): Promise<SentTransfer[]> {
  const found: Buffer[] = []
  await readEntries(text, (reader) => found.push(reader.text()))
  const transfers: SentTransfer[] = []
  for (const each of found) transfers.push(await SentTransfer.read(each))
  return transfers
}

/** Calls back before each document, which has to be read then. */
async function readEntries(text: Buffer, read: (reader: JsonReader) => void): Promise<void> {
  const slice = new TimeSlice()
  try {
    const reader = new JsonReader(text)
    for (const list of listsIn(reader)) {
      for (const _ of list.elements()) {
        for (const member of reader.members()) if (member === 'ok') read(reader)
        if (slice.isOver) await slice.pause()
      }
    }
    reader.end()
  } catch (cause) {
    if (cause instanceof JsonTextError) throw new TransientError('A reply is not JSON.', { cause })
    throw SentTransfer.told(cause)
  }
}

/** Stands before each list of documents. */
function* listsIn(reader: JsonReader): Generator<JsonReader> {
  if (reader.kind() === 'array') return yield reader
  for (const name of reader.members()) {
    if (name !== 'results') continue
    for (const _ of reader.elements()) {
      for (const member of reader.members()) if (member === 'docs') yield reader
    }
  }
}

/** Contents out of the parts that come after the document, in their order. */
class PartContents implements FollowingContents {
  readonly #parts: AsyncGenerator<Part>

  constructor(parts: AsyncGenerator<Part>) {
    this.#parts = parts
  }

  async *next(name: string): AsyncGenerator<Buffer> {
    const part = await nextPart(this.#parts)
    const names = part ? possibleFilenames(part.headers.get('content-disposition') ?? '') : []
    if (!part || (names.length > 0 && !names.includes(name))) {
      throw new TransientError(`The content of attachment ${name} does not follow.`)
    }
    yield* damagedToTransient(part.body)
  }
}

function boundaryIn(contentType: string): string {
  const boundary = boundaryOf(contentType)
  if (boundary === undefined) throw new TransientError('A multipart reply names no boundary.')
  return boundary
}

async function nextPart(parts: AsyncGenerator<Part>): Promise<Part | undefined> {
  try {
    const next = await parts.next()
    return next.done === true ? undefined : next.value
  } catch (cause) {
    throw transient(cause)
  }
}

async function* damagedToTransient(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* pieces
  } catch (cause) {
    throw transient(cause)
  }
}

/** A body that does not end as it should was cut off. */
function transient(cause: unknown): unknown {
  return cause instanceof RequestError ? new TransientError(cause.reason, { cause }) : cause
}

async function collected(pieces: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = []
  let bytes = 0
  for await (const piece of damagedToTransient(pieces)) {
    all.push(piece)
    bytes += piece.length
    if (bytes > LARGEST_DOCUMENT_BYTES) throw new Error('A document is too large.')
  }
  return all.length === 1 ? all[0]! : Buffer.concat(all)
}
