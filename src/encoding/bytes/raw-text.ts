/**
 * Text as bytes in the order of its UTF-8 form, closed so that no text's bytes are a prefix of another's. A lone surrogate
 * keeps its number, as WTF-8 has it: different texts never share bytes.
 */
import type { ByteSink } from './byte-sink.ts'

const endByte = 0x00
/** Stands before the two bytes that would otherwise be taken for the end or for an escape. */
const escapeByte = 0x01
const mostBytesPerUnit = 3

export function writeRawText(text: string, sink: ByteSink): void {
  sink.reserve(mostBytesPerUnit * text.length + 1)
  const { bytes } = sink
  let at = sink.length
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit <= escapeByte) {
      bytes[at++] = escapeByte
      bytes[at++] = escapeByte + unit
    } else if (unit < 0x80) {
      bytes[at++] = unit
    } else if (unit < 0x800) {
      bytes[at++] = 0xc0 | (unit >>> 6)
      bytes[at++] = continuation(unit)
    } else {
      const codePoint = text.codePointAt(i) ?? unit
      if (codePoint === unit) {
        bytes[at++] = 0xe0 | (unit >>> 12)
      } else {
        i++
        bytes[at++] = 0xf0 | (codePoint >>> 18)
        bytes[at++] = continuation(codePoint >>> 12)
      }
      bytes[at++] = continuation(codePoint >>> 6)
      bytes[at++] = continuation(codePoint)
    }
  }
  bytes[at++] = endByte
  sink.length = at
}

function continuation(bits: number): number {
  return 0x80 | (bits & 0x3f)
}
