/**
 * Reads JSON bodies: small ones at once, large ones in a scan thread, whose results are taken over in slices. Whatever a client
 * sends, it never blocks the main thread for long.
 */
import { createHash } from 'node:crypto'
import { parseDocument, type SentDocument } from '../document/document-fields.ts'
import type { DocumentId } from '../document/ids.ts'
import { invalidJson, tooManyItems } from '../document/request-error.ts'
import { ByteArena } from '../encoding/bytes/byte-arena.ts'
import { freeBytes } from '../encoding/bytes/byte-sink.ts'
import { JsonReader, JsonTextError, LongValueError } from '../encoding/json/json-text.ts'
import { isObject, noteDigest } from '../encoding/json/json-value.ts'
import { TimeSlice } from '../runtime/clock.ts'
import { freeMemory } from '../runtime/growing-buffer.ts'
import type { MemoryLease } from '../runtime/memory-budget.ts'
import { BulkReading, type BulkSwitches } from './bulk-reading.ts'
import { type Cut, documentsOf } from './scan-message.ts'
import { scanned } from './scan-runner.ts'

/** A body up to this size is read at once: in the worst case that takes some ten milliseconds. */
const SMALL_BYTES = 128 * 1024
/**
 * The documents of a bulk request up to this size are read in the main thread, in slices: a transfer to a thread would cost
 * more than reading them, unless one of them is large.
 */
const SMALL_BULK_BYTES = 4 * 1024 * 1024

/** Commas and brackets of a body for each item that it may have: an item may be a list. */
const VALUES_AN_ITEM = 32

export interface BulkRequest extends BulkSwitches {
  readonly documents: readonly SentDocument[]
  /** Frees the memory of the documents now, not with the next garbage collection. They must not be used any more. */
  free(): void
}

/** Limits on reading a body. */
export interface ReadingLimits {
  /** The share of the memory budget; it covers the text already. */
  readonly memory?: MemoryLease | undefined
  /** A document with a larger body may be refused before all of it is read. */
  readonly largestDocument?: number | undefined
  /** The caller uses the text afterwards: a thread gets a copy of it. Otherwise it moves to the thread, and is empty then. */
  readonly keepsText?: boolean | undefined
}

/** Reads a text that is one document. `id` is its id where the request has one. */
export async function documentIn(text: Buffer, limits: ReadingLimits = {}, id?: DocumentId): Promise<SentDocument> {
  if (text.length <= SMALL_BYTES) return translated(() => parseDocument(text, id))
  const { memory, largestDocument, keepsText = false } = limits
  const read = keepsText ? Buffer.from(text) : text
  return translatedLater(async () => {
    for await (const result of scanned({ kind: 'document', id, largestDocument }, read, memory)) {
      if (result.kind === 'documents') return documentsOf(result.batch)[0]!
    }
    throw new Error('A scan ended without its document.')
  })
}

/** Reads the body of `_bulk_docs`. The caller must not use the text any more. */
export async function bulkRequestIn(
  text: Buffer,
  mostDocuments: number,
  limits: ReadingLimits = {},
): Promise<BulkRequest> {
  return translatedLater(async () => {
    const small = text.length <= SMALL_BULK_BYTES ? await smallBulkRequest(text, mostDocuments) : undefined
    if (!small) return largeBulkRequest(text, mostDocuments, limits)
    freeBytes(text)
    return small
  })
}

/** Parses a body with parameters. Refuses a list with more items than this. */
export async function valueIn(text: Buffer, mostItems: number, memory?: MemoryLease): Promise<unknown> {
  if (text.length <= SMALL_BYTES) return translated(() => smallValue(text, mostItems))
  return translatedLater(async () => {
    for await (const result of scanned({ kind: 'value', mostValues: VALUES_AN_ITEM * mostItems }, text, memory)) {
      if (result.kind === 'value') return await parsedValue(result.text.buffer, result.cuts, mostItems)
    }
    throw new Error('A scan ended without its value.')
  })
}

/** Undefined where a document is so large that a scan thread should read them. */
async function smallBulkRequest(text: Buffer, mostDocuments: number): Promise<BulkRequest | undefined> {
  const slice = new TimeSlice()
  const arena = new ByteArena(text.length)
  try {
    const reading = new BulkReading(text, mostDocuments, { longestBytes: SMALL_BYTES, arena })
    let documents: SentDocument[] = []
    for (const document of reading.documents()) {
      if (document === 'restart') documents = []
      else documents.push(document)
      if (slice.isOver) await slice.pause()
    }
    return { documents, free: () => arena.free(), ...reading.switches() }
  } catch (error) {
    if (error instanceof LongValueError) return undefined
    throw error
  }
}

async function largeBulkRequest(
  text: Buffer,
  mostDocuments: number,
  { memory, largestDocument }: ReadingLimits,
): Promise<BulkRequest> {
  let documents: SentDocument[] = []
  const blocks: ArrayBuffer[] = []
  const free = () => {
    for (const block of blocks) freeMemory(block)
  }
  for await (const result of scanned({ kind: 'bulk', mostDocuments, largestDocument }, text, memory)) {
    if (result.kind === 'bulk') return { documents, free, ...result.switches }
    if (result.kind !== 'documents') continue
    if (result.isRestart) documents = []
    for (const { buffer } of result.batch.blocks) blocks.push(buffer)
    for (const document of documentsOf(result.batch)) documents.push(document)
  }
  throw new Error('A scan ended without its result.')
}

function smallValue(text: Buffer, mostItems: number): unknown {
  const reader = new JsonReader(text)
  const value = reader.value()
  reader.end()
  if (!isObject(value)) return value
  let members = 0
  for (const name in value) {
    const member = value[name]
    const items = Array.isArray(member) ? member.length : ++members
    if (items > mostItems) throw tooManyItems(mostItems)
  }
  return value
}

/** The text is freed. */
async function parsedValue(text: ArrayBuffer, cuts: readonly Cut[], mostItems: number): Promise<unknown> {
  try {
    return await parsedParts(Buffer.from(text), cuts, mostItems)
  } finally {
    freeMemory(text)
  }
}

async function parsedParts(text: Buffer, cuts: readonly Cut[], mostItems: number): Promise<unknown> {
  const slice = new TimeSlice()
  const value: Record<string, unknown> = {}
  let members = 0
  for (const cut of cuts) {
    if (cut.kind === 'whole') return JSON.parse(text.toString('utf8', cut.start, cut.end))
    if (cut.kind === 'list') setMember(value, cut.name, await parsedList(text, cut.parts, mostItems, slice))
    else {
      const some: Record<string, unknown> = JSON.parse(`{${text.toString('utf8', cut.start, cut.end)}}`)
      for (const [name, member] of Object.entries(some)) {
        if (Array.isArray(member) && member.length > mostItems) throw tooManyItems(mostItems)
        setMember(value, name, member)
      }
      members += Object.keys(some).length
    }
    if (members > mostItems) throw tooManyItems(mostItems)
    if (slice.isOverNow) await slice.pause()
  }
  return value
}

async function parsedList(
  text: Buffer,
  parts: readonly number[],
  mostItems: number,
  slice: TimeSlice,
): Promise<unknown[]> {
  const list: unknown[] = []
  const digest = createHash('md5')
  for (let part = 0; part < parts.length; part += 2) {
    const bytes = text.subarray(parts[part], parts[part + 1])
    digest.update(bytes)
    const some: unknown[] = JSON.parse(`[${bytes.toString()}]`)
    for (const item of some) list.push(item)
    if (list.length > mostItems) throw tooManyItems(mostItems)
    if (slice.isOverNow) await slice.pause()
  }
  noteDigest(list, digest.digest('base64'))
  return list
}

/** Also for names such as `__proto__`, which a plain assignment would treat differently. */
function setMember(value: Record<string, unknown>, name: string, member: unknown): void {
  if (name !== '__proto__') value[name] = member
  else Object.defineProperty(value, name, { value: member, enumerable: true, configurable: true, writable: true })
}

function translated<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof JsonTextError ? invalidJson() : error
  }
}

async function translatedLater<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    throw error instanceof JsonTextError ? invalidJson() : error
  }
}
