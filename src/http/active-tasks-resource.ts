/** `_active_tasks`: long work that is going on. */
import { type Answer, json } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'

export function activeTasks(_: Call, { tasks }: HttpContext): Answer {
  return json(tasks.list())
}
