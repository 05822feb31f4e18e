/**
 * A reverse proxy to another server: what follows the first segment of the path is requested from it, and its reply is
 * streamed back.
 */

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { badRequest } from '../../document/request-error.ts'
import { HOP_BY_HOP_HEADERS, OWN_REPLY_HEADERS } from '../../wire/reply.ts'
import { bodyPieces } from '../bodies/request-body.ts'
import { type Answer, type Headers, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import { HttpError } from '../server/errors.ts'

/** Timeout of the other server. */
const SILENCE_LIMIT_MS = 300_000

/** A request that has passed through a proxy this often is in a loop. */
const MOST_HOPS = 5
const OWN_NAME = 'settle'

export async function forwardRequest(call: Call, target: string): Promise<Answer> {
  const base = baseOf(target)
  const via = call.header('via') ?? ''
  if (via.split(OWN_NAME).length > MOST_HOPS) {
    throw new HttpError(508, 'loop_detected', 'The request is in a proxy loop.')
  }
  const url = new URL(withoutLastSlashes(base.href) + restOf(call))
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest
  const outgoing = send(url, {
    method: call.request.method,
    headers: { ...forwardedHeaders(call), host: url.host, via: `${via === '' ? '' : `${via}, `}1.1 ${OWN_NAME}` },
    timeout: SILENCE_LIMIT_MS,
  })
  const response = await exchanged(call, outgoing)
  return streamed(response, {
    status: response.statusCode ?? 502,
    headers: repliedHeaders(call, base, response),
    repeatedHeaders: response.headers['set-cookie']?.map((cookie) => ['Set-Cookie', cookie] as const),
    release: () => void response.destroy(),
  })
}

function baseOf(target: string): URL {
  const base = URL.canParse(target) ? new URL(target) : undefined
  if (base?.protocol !== 'http:' && base?.protocol !== 'https:') {
    throw new HttpError(500, 'error', 'The address of the proxied server is not valid.')
  }
  return base
}

/** What follows the first segment, as it was sent. It stays below the address that the operator gave. */
function restOf({ url }: Call): string {
  const [, rest = ''] = /^(?:https?:\/\/[^/?]*)?\/*[^/?]*(.*)$/s.exec(url) ?? []
  const [path = ''] = rest.split('?', 1)
  if (path.split(/[/\\]|%2f|%5c/i).some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw badRequest('A path must not lead upwards.')
  }
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** Resolves when the other server begins to answer. */
async function exchanged(call: Call, outgoing: ClientRequest): Promise<IncomingMessage> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', (response) => {
      // Reported to the reader of the body, if there is one.
      response.on('error', () => {})
      resolve(response)
    })
    outgoing.on('error', (error) => reject(new HttpError(502, 'bad_gateway', error.message)))
    outgoing.once('timeout', () => outgoing.destroy(new Error('The proxied server does not respond.')))
  })
  // Reported where it is awaited.
  answered.catch(() => {})
  call.reply.onClose(() => outgoing.destroy())
  for await (const piece of bodyPieces(call)) {
    if (outgoing.destroyed) break
    if (outgoing.write(piece)) continue
    await Promise.race([new Promise((resolve) => outgoing.once('drain', resolve)), answered])
  }
  outgoing.end()
  return answered
}

/** Headers of a request that are not passed on. */
const NOT_FORWARDED = new Set([...HOP_BY_HOP_HEADERS, 'expect', 'host'])

function forwardedHeaders(call: Call): Record<string, string> {
  const sent = Object.entries(call.request.headers).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !NOT_FORWARDED.has(entry[0]),
  )
  return {
    ...Object.fromEntries(sent),
    'x-forwarded-for': call.peer,
    'x-forwarded-host': call.host,
    'x-forwarded-proto': call.origin.startsWith('https:') ? 'https' : 'http',
  }
}

/** Headers of a reply that are not passed on. */
const NOT_RETURNED = new Set([...OWN_REPLY_HEADERS, 'expect', 'host'])

/** A redirect within that server is a redirect below our path. */
function repliedHeaders(call: Call, base: URL, { headers }: IncomingMessage): Headers {
  const kept = Object.entries(headers).flatMap(([name, value]): [string, string][] => {
    if (typeof value !== 'string' || NOT_RETURNED.has(name)) return []
    return [[spelled(name), value]]
  })
  const all = Object.fromEntries(kept)
  const { Location: location } = all
  return location === undefined ? all : { ...all, Location: ourLocation(call, base, location) }
}

function ourLocation(call: Call, base: URL, location: string): string {
  const prefix = call.location(call.segment(0))
  if (location.startsWith('/')) return prefix + location
  const there = withoutLastSlashes(base.href)
  return location.startsWith(there) ? prefix + location.slice(there.length) : location
}

function withoutLastSlashes(address: string): string {
  let end = address.length
  while (address[end - 1] === '/') end--
  return address.slice(0, end)
}

function spelled(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (begin) => begin.toUpperCase())
}
