/** The `Range` header: which parts of a content are wanted. */
import { RequestError } from '../../document/request-error.ts'
import type { ByteRange } from '../../multipart/multipart-writer.ts'

const RANGES_LIMIT = 9

/** The ranges; undefined when the whole is to be sent: nothing asked for, nothing understood, or too much. */
export function parseRanges(header: string | undefined, length: number): ByteRange[] | undefined {
  const [, list] = /^bytes=(.*)$/.exec(header ?? '') ?? []
  const specs = list?.split(',').map((spec) => spec.trim())
  if (!specs?.every((spec) => /^(\d+-\d*|-\d+)$/.test(spec))) return undefined
  if (specs.includes('0-') || specs.length > RANGES_LIMIT) return undefined
  return specs.map((spec) => parseRange(spec, length))
}

function parseRange(spec: string, length: number): ByteRange {
  const [first = '', last = ''] = spec.split('-')
  const range =
    first === ''
      ? { first: Math.max(0, length - Number(last)), last: length - 1 }
      : { first: Number(first), last: last === '' ? length - 1 : Math.min(Number(last), length - 1) }
  if (range.last < range.first) {
    throw new RequestError(416, 'requested_range_not_satisfiable', 'Requested range not satisfiable')
  }
  return range
}
