/**
 * The id of a request: it is in the reply and in every line of the log about the request, so that one leads to the
 * other. Ten hexadecimal digits, or what a proxy in front of the server chose.
 */
import { randomInt } from 'node:crypto'
import type { Request } from '../../wire/request.ts'

/** What a proxy may send: no blanks or quotes, so that it can go into a line of the log and a header as it is. */
const WELL_FORMED = /^[\w.:=+/-]{1,128}$/

/** In the order in which they are looked at. */
const REQUEST_HEADERS = ['x-service-request-id', 'x-couch-request-id', 'x-request-id']

export function requestId({ headers }: Request, { isAccepted }: { readonly isAccepted: boolean }): string {
  if (!isAccepted) return nextId()
  const given = REQUEST_HEADERS.map((name) => headers[name]).find((value) => value !== undefined)
  return given !== undefined && WELL_FORMED.test(given) ? given : nextId()
}

const IDS_A_PREFIX = 2 ** 24
/** Three hexadecimal digits each. Two lookups are far cheaper than a random number for each request. */
const DIGITS = Array.from({ length: 4096 }, (_, number) => number.toString(16).padStart(3, '0'))

let prefix = ''
let ordinal = IDS_A_PREFIX

/** Unique in this process for 2^24 requests in a row, and unlikely to be that of another process. */
function nextId(): string {
  if (ordinal === IDS_A_PREFIX) {
    prefix = randomInt(2 ** 16)
      .toString(16)
      .padStart(4, '0')
    ordinal = 0
  }
  const id = prefix + DIGITS[ordinal >> 12] + DIGITS[ordinal & 4095]
  ordinal++
  return id
}
