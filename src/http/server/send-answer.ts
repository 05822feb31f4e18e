/** The one place that sends what handlers answer. */
import { TimeSlice } from '../../runtime/time-slice.ts'
import { version } from '../../runtime/version.ts'
import { headerLine } from '../../wire/reply-head.ts'
import { sendFeed } from '../changes/feed-output.ts'
import type { Answer, Headers, StreamedAnswer, WholeAnswer } from './answer.ts'
import type { Call } from './call.ts'

/** Who answers. */
export const SERVER_LINE = headerLine('Server', `Service/${version} (Node.js/${process.versions.node})`)
const CACHE_LINE = headerLine('Cache-Control', 'must-revalidate')
const JSON_LINE = headerLine('Content-Type', 'application/json')
const TEXT_LINE = headerLine('Content-Type', 'text/plain;charset=utf-8')

/** What most replies begin with. */
const JSON_HEAD = SERVER_LINE + CACHE_LINE + JSON_LINE

/**
 * Clients refuse replies with more. Of what succeeded only addresses and tags can be so long, from ids and revisions
 * that somebody chose: better without them than no reply at all.
 */
const HEADER_LIMIT_CHARACTERS = 7_000

/** The lines of the headers. Those of the answer win. Its size is for the reply to tell. */
function headOf(call: Call, { headers, status }: Answer): string {
  let head = beginOfHead(call, headers, status)
  for (const name in headers) {
    const value = headers[name]!
    const isSent = name !== 'Content-Length' && (value.length <= HEADER_LIMIT_CHARACTERS || status >= 300)
    if (isSent) head += headerLine(name, value)
  }
  return head
}

function beginOfHead(call: Call, headers: Headers, status: number): string {
  const isCached = headers['Cache-Control'] !== undefined
  const hasType = headers['Content-Type'] !== undefined || status === 304 || status === 204
  if (!isCached && !hasType && call.sendsJsonType) return JSON_HEAD
  const type = hasType ? '' : call.sendsJsonType ? JSON_LINE : TEXT_LINE
  return `${SERVER_LINE}${isCached ? '' : CACHE_LINE}${type}`
}

export function sendWhole(call: Call, answer: WholeAnswer): void {
  call.reply.send(answer.status, headOf(call, answer), answer.body, answer.isChunked)
}

export async function sendStreamed(call: Call, answer: StreamedAnswer): Promise<void> {
  try {
    await stream(call, answer)
  } finally {
    answer.release()
  }
}

async function stream(call: Call, answer: StreamedAnswer): Promise<void> {
  const { reply } = call
  const size = answer.headers['Content-Length']
  const repeated = answer.repeatedHeaders?.map(([name, value]) => headerLine(name, value)).join('') ?? ''
  reply.begin(answer.status, headOf(call, answer) + repeated, size === undefined ? undefined : Number(size))
  if (call.request.method === 'HEAD' || call.method === 'HEAD') {
    reply.end()
    return
  }
  if (answer.isFlushed) return sendFeed(reply, answer.chunks, answer.direct)
  const slice = new TimeSlice()
  for await (const chunk of answer.chunks) {
    // Leaving the loop ends the work of who makes the chunks.
    if (reply.isGone) return
    if (!reply.write(chunk)) await reply.drained()
    // What is at hand comes without a turn of the event loop, however much it is.
    else if (slice.isOverNow) await slice.pause()
  }
  reply.end()
}
