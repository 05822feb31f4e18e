/**
 * Base64 as clients and functions send it, checked strictly in linear time: the standard alphabet, white space between,
 * padding that is right or left out. The engine's own decoder passes over whatever is no Base64.
 */

/** The bytes, or undefined where the text is no Base64. */
export function decodeBase64(sent: string): Buffer | undefined {
  return decoded(sent) ?? (WHITE_SPACE.test(sent) ? decoded(sent.replaceAll(WHITE_SPACES, '')) : undefined)
}

const WHITE_SPACE = /[\r\n\t ]/
const WHITE_SPACES = /[\r\n\t ]/g

function decoded(text: string): Buffer | undefined {
  const padding = paddingOf(text)
  const digits = text.length - padding
  if (digits % 4 === 1 || (padding > 0 && text.length % 4 !== 0)) return undefined
  const bytes = Buffer.from(text, 'base64')
  // Of what is no digit nothing comes: then the bytes are fewer. The digits of addresses are taken for those of Base64.
  if (bytes.length !== Math.floor((digits * 3) / 4) || text.includes('-') || text.includes('_')) return undefined
  return hasSpareBits(text, digits, bytes) ? undefined : bytes
}

/** At most two: with more the text is not of the alphabet. */
function paddingOf(text: string): number {
  if (!text.endsWith('=')) return 0
  return text.endsWith('==') ? 2 : 1
}

/** Whether the last digit has bits that belong to no byte: two texts would then stand for the same bytes. */
function hasSpareBits(text: string, digits: number, bytes: Buffer): boolean {
  const open = digits % 4
  if (open === 0) return false
  const last = bytes.subarray(bytes.length - (open - 1)).toString('base64')
  return last.slice(0, open) !== text.slice(digits - open, digits)
}
