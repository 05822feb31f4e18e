/**
 * What JSON bodies say: small ones are read at once, large ones by the scan thread, and what comes of them is taken over
 * in slices. Whatever somebody sends, the main thread never works on it for long.
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

/** Up to here a body is read at once: in the worst case that takes some ten milliseconds. */
const SMALL_BYTES = 128 * 1024
/**
 * Up to here the documents of a bulk request are read here too, in slices: handing them over costs more than reading
 * them, unless one of them is large.
 */
const SMALL_BULK_BYTES = 4 * 1024 * 1024

/** Commas and brackets of a body for each item that it may have: an item may be a list. */
const VALUES_AN_ITEM = 32

export interface BulkRequest extends BulkSwitches {
  readonly documents: readonly SentDocument[]
  /** Frees the memory of the documents now, and not with the next garbage collection. Nobody may use them any more. */
  free(): void
}

/** What limits the reading of a body. */
export interface ReadingLimits {
  /** What all bodies may take together; it has been asked for the text already. */
  readonly memory?: MemoryLease | undefined
  /** A document with a larger body may be refused before all of it is read. */
  readonly largestDocument?: number | undefined
}

/** A text that is one document; its id as it is known from elsewhere. */
export async function documentIn(text: Buffer, limits: ReadingLimits = {}, id?: DocumentId): Promise<SentDocument> {
  if (text.length <= SMALL_BYTES) return translated(() => parseDocument(text, id))
  const { memory, largestDocument } = limits
  return translatedLater(async () => {
    for await (const result of scanned({ kind: 'document', id, largestDocument }, text, memory)) {
      if (result.kind === 'documents') return documentsOf(result.batch)[0]!
    }
    throw new Error('A scan ended without its document.')
  })
}

/** The body of `_bulk_docs`, which must not be used any more by whoever hands it over. */
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

/** A body that is parameters: as JavaScript has it. No list in it has more items than this. */
export async function valueIn(text: Buffer, mostItems: number, memory?: MemoryLease): Promise<unknown> {
  if (text.length <= SMALL_BYTES) return translated(() => smallValue(text, mostItems))
  return translatedLater(async () => {
    for await (const result of scanned({ kind: 'value', mostValues: VALUES_AN_ITEM * mostItems }, text, memory)) {
      if (result.kind === 'value') return await parsedValue(result.text.buffer, result.cuts, mostItems)
    }
    throw new Error('A scan ended without its value.')
  })
}

/** Undefined where one of the documents is so large that the scan thread should read them. */
async function smallBulkRequest(text: Buffer, mostDocuments: number): Promise<BulkRequest | undefined> {
  const slice = new TimeSlice()
  const arena = new ByteArena(text.length)
  try {
    const reading = new BulkReading(text, mostDocuments, { longestBytes: SMALL_BYTES, arena })
    let documents: SentDocument[] = []
    for (const document of reading.documents()) {
      if (document === 'anew') documents = []
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
    if (result.isAnew) documents = []
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

/** Also where the name is one that means something else to an assignment. */
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
