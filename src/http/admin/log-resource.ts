/** `_log`: reads the end of the log, and writes lines that clients send into it. */
import { badRequest } from '../../document/request-error.ts'
import { readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

const DEFAULT_BYTES = 1000

export async function readLog(call: Call, { configuration, serverLog }: HttpContext): Promise<Answer> {
  const bytes = call.queryCount('bytes') ?? DEFAULT_BYTES
  const offset = call.queryCount('offset') ?? 0
  const most = configuration.integer('httpd', 'log_max_chunk_size')
  if (bytes > most) throw badRequest(`'bytes' cannot exceed ${most}`)
  const tail = await serverLog.tail(bytes, offset)
  async function* chunks() {
    if (tail.length > 0) yield tail
  }
  return streamed(chunks(), { headers: { 'Content-Type': 'text/plain;charset=utf-8' } })
}

/** A page of another site could send any other type on behalf of the user who views it. */
export async function writeLog(call: Call, context: HttpContext): Promise<Answer> {
  requireJsonType(call)
  const { level, message } = await readJsonObject(call, context)
  if (level !== 'debug' && level !== 'info' && level !== 'warn' && level !== 'error') {
    const shown = typeof level === 'string' ? level : JSON.stringify(level)
    return json({ error: `Unrecognized log level '${shown}'` }, { status: 400 })
  }
  if (typeof message !== 'string') throw badRequest('message must be a JSON string')
  context.log[level](message)
  return json({ ok: true })
}
