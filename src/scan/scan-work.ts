/**
 * Reads large JSON bodies in the scan thread: a document, the documents of a bulk request in batches, or the places where a
 * body with parameters can be cut into parts that parse quickly. Pure: text in, results out.
 */
import { decodedAttachments, parseDocument, type SentDocument } from '../document/document-fields.ts'
import { tooLarge } from '../document/request-error.ts'
import { JsonReader } from '../encoding/json/json-text.ts'
import { BulkReading } from './bulk-reading.ts'
import { BatchWriter, type Cut, type MatchScan, ownBytes, type Scan, type ScanResult } from './scan-message.ts'

/** One batch for the main thread: some milliseconds of its time. */
const BATCH_DOCUMENTS = 500
const BATCH_BYTES = 512 * 1024

/** One part for the main thread to parse. */
const PART_BYTES = 32 * 1024
/** A longer value is refused, since it cannot be cut any further. A string parses faster and may be longer. */
const LONGEST_PART_BYTES = 256 * 1024
const LONGEST_TEXT_BYTES = 8 * 1024 * 1024

/** Yields one result for each request of the main thread. */
export function* scan(work: Exclude<Scan, MatchScan>, text: Buffer): Generator<ScanResult, void, void> {
  if (work.kind === 'document') yield batchOf(parseDocument(text, work.id, work.largestDocument))
  else if (work.kind === 'bulk') yield* bulkResults(text, work.mostDocuments, work.largestDocument)
  else yield { kind: 'value', cuts: [...cutsOf(text, work.mostValues)], text: ownBytes(text) }
}

function* bulkResults(
  text: Buffer,
  mostDocuments: number,
  largestDocument: number | undefined,
): Generator<ScanResult, void, void> {
  const reading = new BulkReading(text, mostDocuments, { largestDocument })
  let batch = new BatchWriter()
  let isRestart = false
  for (const document of reading.documents()) {
    if (document === 'restart') {
      batch = new BatchWriter()
      isRestart = true
      continue
    }
    batch.add(decoded(document))
    if (batch.count < BATCH_DOCUMENTS && batch.bytes < BATCH_BYTES) continue
    yield { kind: 'documents', batch: batch.finish(), isRestart }
    batch = new BatchWriter()
    isRestart = false
  }
  if (batch.count > 0 || isRestart) yield { kind: 'documents', batch: batch.finish(), isRestart }
  yield { kind: 'bulk', switches: reading.switches() }
}

function batchOf(document: SentDocument): ScanResult {
  const batch = new BatchWriter()
  batch.add(decoded(document))
  return { kind: 'documents', batch: batch.finish(), isRestart: false }
}

function decoded(document: SentDocument): SentDocument {
  if (document.attachments.length === 0) return document
  return { ...document, attachments: decodedAttachments(document.attachments) }
}

function* cutsOf(text: Buffer, mostValues: number): Generator<Cut, void, void> {
  if (valuesIn(text) > mostValues) throw tooLarge()
  const reader = new JsonReader(text)
  if (reader.kind() !== 'object') {
    const start = skippedPart(reader)
    yield { kind: 'whole', start, end: reader.position }
    reader.end()
    return
  }
  let start = -1
  let end = -1
  for (const { name, nameAt } of reader.membersAt()) {
    const parts = reader.kind() === 'array' ? partsOf(reader) : undefined
    if (parts && reader.position - nameAt > PART_BYTES) {
      if (start >= 0) yield { kind: 'members', start, end }
      start = -1
      yield { kind: 'list', name, parts }
      continue
    }
    if (!parts) skippedPart(reader)
    if (start >= 0 && reader.position - start > PART_BYTES) {
      yield { kind: 'members', start, end }
      start = -1
    }
    if (start < 0) start = nameAt
    end = reader.position
  }
  if (start >= 0) yield { kind: 'members', start, end }
  reader.end()
}

/** Pairs of start and end: elements of a list that are parsed together. */
function partsOf(reader: JsonReader): number[] {
  const parts: number[] = []
  let start = -1
  let end = -1
  for (const _ of reader.elements()) {
    const elementStart = skippedPart(reader)
    if (start >= 0 && reader.position - start > PART_BYTES) {
      parts.push(start, end)
      start = -1
    }
    if (start < 0) start = elementStart
    end = reader.position
  }
  if (start >= 0) parts.push(start, end)
  return parts
}

/** Skips a value that is parsed as one part; returns where it began. */
function skippedPart(reader: JsonReader): number {
  const limit = reader.kind() === 'string' ? LONGEST_TEXT_BYTES : LONGEST_PART_BYTES
  const start = reader.position
  reader.skip()
  if (reader.position - start > limit) throw tooLarge()
  return start
}

/** An upper bound: commas and brackets inside strings count too. */
function valuesIn(text: Buffer): number {
  let count = 0
  for (let at = 0; at < text.length; at++) {
    const byte = text[at]
    if (byte === 0x2c || byte === 0x5b || byte === 0x7b) count++
  }
  return count
}
