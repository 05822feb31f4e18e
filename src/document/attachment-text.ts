/**
 * What a document says about one attachment. Inline content is taken out of the text before the rest is parsed: it may have
 * megabytes, and parsing would add two more copies of it.
 */
import { decodeBase64 } from '../encoding/json/base64-text.ts'
import { endOfValue } from '../encoding/json/minified-text.ts'

export interface AttachmentMembers {
  /** The parsed members; `data` is empty where it was decoded. */
  readonly members: Record<string, unknown>
  /** The decoded inline content, unless it is short or not Base64: then it is in the members. */
  readonly data: Buffer | undefined
}

/** A shorter text is parsed as it is. */
const SHORT_BYTES = 1024

/** The text must be a minified JSON object. */
export function attachmentMembers(text: Buffer): AttachmentMembers {
  const place = text.length < SHORT_BYTES ? undefined : placeOfData(text)
  const data = place && decodeBase64(text.toString('latin1', place.start + 1, place.end - 1))
  if (!place || !data) return { members: JSON.parse(text.toString()), data: undefined }
  const others = `${text.toString('utf8', 0, place.start)}""${text.toString('utf8', place.end)}`
  return { members: JSON.parse(others), data }
}

/** The place of the value of `data`, with its quotes; undefined where it is missing or not a string. */
function placeOfData(text: Buffer): { readonly start: number; readonly end: number } | undefined {
  let found: { start: number; end: number } | undefined
  for (let at = 1; text[at] === QUOTE; ) {
    const nameEnd = endOfValue(text, at)
    const start = nameEnd + 1
    const end = endOfValue(text, start)
    // Of duplicate members the last one counts.
    if (nameEnd - at === DATA.length && text.compare(DATA, 0, DATA.length, at, nameEnd) === 0) {
      found = text[start] === QUOTE ? { start, end } : undefined
    }
    at = end + 1
  }
  return found
}

const DATA = Buffer.from('"data"')
const QUOTE = 0x22
