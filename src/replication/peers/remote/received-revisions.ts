/** Revisions out of the reply of a remote source, one after the other: out of its parts, or out of one JSON text. */

import { readDocument } from '../../../document/document-fields.ts'
import { badRequest, RequestError } from '../../../document/request-error.ts'
import { freeBytes } from '../../../encoding/bytes/byte-sink.ts'
import { JsonReader, JsonTextError, LongValueError } from '../../../encoding/json/json-text.ts'
import { isObject } from '../../../encoding/json/json-value.ts'
import { boundaryOf, type Part, possibleFilenames, readParts } from '../../../multipart/multipart-reader.ts'
import { TimeSlice } from '../../../runtime/clock.ts'
import { GrowingBuffer } from '../../../runtime/growing-buffer.ts'
import type { HttpReply } from '../../client/http-reply.ts'
import { TransientError } from '../../client/retries.ts'
import { type FollowingContents, SentTransfer } from './sent-transfer.ts'
import { UnreadTransfer } from './unread-transfer.ts'

/** What is not read by this server's own reader may take many times the memory of its text. */
const LARGEST_LENIENT_BYTES = 32 * 1024 * 1024
const LARGEST_DOCUMENT_BYTES = 256 * 1024 * 1024
const MULTIPART_LIMITS = { headerBytes: 64 * 1024, parts: 1_000_000 }

/** Whether the reply has a part for each revision, or else is JSON. */
export function isMultipart(reply: HttpReply): boolean {
  return /^multipart\//i.test(reply.contentType)
}

/** Each is to be used before the next one is asked for. Parts that say why a revision is missing are left out. */
export async function* revisionsInParts(reply: HttpReply, onMissing: OnMissing): AsyncGenerator<ReceivedRevision> {
  const parts = readParts(reply.pieces(), boundaryIn(reply.contentType), MULTIPART_LIMITS)
  try {
    for (let part = await nextPart(parts); part; part = await nextPart(parts)) {
      const type = part.headers.get('content-type') ?? ''
      if (/;\s*error="?true"?/i.test(type)) {
        noteError(lenientlyParsed(await collected(part.body)), onMissing)
        continue
      }
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

/** Called with each revision that is not there, or not for us. */
export type OnMissing = (missing: MissingRevision) => void

/** Members that the reply leaves out are undefined. */
export interface MissingRevision {
  readonly id: string | undefined
  readonly revision: string | undefined
}

/** Any other error says nothing of the revision: it is asked for again. */
const FINAL_ERRORS: readonly unknown[] = ['not_found', 'missing', 'unauthorized', 'forbidden']

function noteError(entry: unknown, onMissing: OnMissing): void {
  if (!isObject(entry)) return
  const { id, rev, error, missing } = entry
  if (typeof missing !== 'string' && !FINAL_ERRORS.includes(error)) return
  onMissing({ id: textOf(id), revision: textOf(missing) ?? textOf(rev) })
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** A revision as it came. */
export type ReceivedRevision = SentTransfer | UnreadTransfer

/**
 * The documents of a JSON reply: the values of all members `ok`, wherever the form of the reply has them. `_bulk_get` has
 * lists of results, `open_revs` one list.
 */
export async function revisionsInJson(
  reply: HttpReply,
  limitBytes: number,
  onMissing: OnMissing,
): Promise<ReceivedRevision[]> {
  const text = await reply.bytes(limitBytes)
  try {
    return await readAtOnce(text, onMissing)
  } catch (error) {
    // One by one: those that take long are read by threads, and those that cannot be stored do not spoil the others.
    if (error instanceof LongValueError || error instanceof RequestError) return readOneByOne(text, onMissing)
    if (error instanceof JsonTextError) return readLeniently(text, error)
    throw error
  }
}

/** Documents up to this size are read right here. */
const SMALL_DOCUMENT_BYTES = 128 * 1024

/** Throws `LongValueError` where one of the documents would take long. */
async function readAtOnce(text: Buffer, onMissing: OnMissing): Promise<SentTransfer[]> {
  const found: SentTransfer[] = []
  // Until all of them are read nobody has used one.
  let unreleased = 0
  const onRelease = () => {
    if (--unreleased === 0) freeBytes(text)
  }
  await readEntries(
    text,
    onMissing,
    (reader) => {
      const start = reader.position
      const document = reader.within(SMALL_DOCUMENT_BYTES, () => readDocument(reader))
      found.push(SentTransfer.of(text.subarray(start, reader.position), document, onRelease))
    },
    { isLent: true },
  )
  unreleased = found.length
  return found
}

async function readOneByOne(text: Buffer, onMissing: OnMissing): Promise<ReceivedRevision[]> {
  const found: Buffer[] = []
  try {
    await readEntries(text, onMissing, (reader) => found.push(reader.text()))
  } catch (error) {
    if (error instanceof JsonTextError) return readLeniently(text, error)
    throw error
  }
  const transfers: ReceivedRevision[] = []
  for (const each of found) transfers.push(await SentTransfer.read(each))
  return transfers
}

/** A reply that is JSON, though not within the limits of this server; else it was damaged on its way. */
function readLeniently(text: Buffer, cause: JsonTextError): ReceivedRevision[] {
  const value = lenientlyParsed(text)
  const lists = isObject(value) && Array.isArray(value.results) ? value.results.map(docsOf) : [value]
  const documents = lists.flatMap((list) => (Array.isArray(list) ? list.map(okOf) : []))
  const refusal = badRequest(cause.message)
  const unread = documents.flatMap((each) => (each === undefined ? [] : [JSON.stringify(each)]))
  if (value === undefined || (unread.length === 0 && documents.length > 0)) {
    throw new TransientError('A reply is not JSON.', { cause })
  }
  if (unread.length > 1) throw new MixedReplyError(cause)
  return unread.flatMap((each) => UnreadTransfer.of(Buffer.from(each), refusal) ?? [])
}

/** One of several documents cannot be read: they are to be asked for by themselves. */
export class MixedReplyError extends Error {
  override readonly name = 'MixedReplyError'

  constructor(cause: Error) {
    super(cause.message, { cause })
  }
}

function lenientlyParsed(text: Buffer): unknown {
  if (text.length > LARGEST_LENIENT_BYTES) return undefined
  try {
    return JSON.parse(text.toString())
  } catch {
    return undefined
  }
}

function docsOf(result: unknown): unknown {
  return isObject(result) ? result.docs : undefined
}

function okOf(entry: unknown): unknown {
  return isObject(entry) ? entry.ok : undefined
}

/** Calls back before each document, which has to be read then. */
async function readEntries(
  text: Buffer,
  onMissing: OnMissing,
  read: (reader: JsonReader) => void,
  options: { readonly isLent?: boolean } = {},
): Promise<void> {
  const slice = new TimeSlice()
  const reader = new JsonReader(text, options)
  for (const list of listsIn(reader)) {
    for (const _ of list.elements()) {
      for (const member of reader.members()) {
        if (member === 'ok') read(reader)
        else if (member === 'error') noteError(reader.value(), onMissing)
        else if (member === 'missing') onMissing({ id: undefined, revision: textOf(reader.value()) })
      }
      if (slice.isOver) await slice.pause()
    }
  }
  reader.end()
}

/** Stands before each list of documents. */
function* listsIn(reader: JsonReader): Generator<JsonReader> {
  const kind = reader.kind()
  if (kind === 'array') return yield reader
  if (kind !== 'object') throw noResults()
  let hasResults = false
  for (const name of reader.members()) {
    if (name !== 'results') continue
    hasResults = true
    for (const _ of reader.elements()) {
      for (const member of reader.members()) if (member === 'docs') yield reader
    }
  }
  if (!hasResults) throw noResults()
}

/** What says nothing of the revisions must not be taken for a reply without any: they would be lost. */
function noResults(): TransientError {
  return new TransientError('A reply has no results.')
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
  // Most documents come in one piece. A list of very small pieces would take many times their bytes.
  let only: Buffer | undefined
  const all = new GrowingBuffer()
  for await (const piece of damagedToTransient(pieces)) {
    if (all.length === 0 && only === undefined) {
      only = piece
      continue
    }
    if (only) all.add(only)
    only = undefined
    all.add(piece)
    if (all.length > LARGEST_DOCUMENT_BYTES) throw new Error('A document is too large.')
  }
  return only ?? (await all.take())
}
