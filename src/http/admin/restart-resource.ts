/** `_restart`: everything is closed and opened again, with the configuration read anew. */
import { type Answer, json } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

/** Accepted, and begun when the client has its answer. */
export function restart(call: Call, context: HttpContext): Answer {
  call.reply.keepsAlive = false
  call.reply.onClose(() => context.restart())
  return json({ ok: true }, { status: 202 })
}
