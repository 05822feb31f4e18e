/** `_active_tasks`: long work that is going on. */
import { type Answer, json } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export function activeTasks(_: Call, { tasks }: HttpContext): Answer {
  return json(tasks.list())
}
