/**
 * JSON as a script, for pages that can load nothing else: `callback=f` gives `f(…)`. Called where the operator allows
 * it.
 */
import { badRequest } from '../../document/request-error.ts'
import type { Answer } from '../server/answer.ts'
import type { Call } from '../server/call.ts'

/** A callback must be a plain name, or any script could be injected. */
export function checkCallback(call: Call): void {
  const callback = callbackOf(call)
  if (callback !== undefined && !isName(callback)) throw badRequest('invalid_callback')
}

/** The reply as a call of the callback, where there is one and the reply is JSON. */
export function wrapped(call: Call, answer: Answer): Answer {
  const callback = callbackOf(call)
  if (callback === undefined || !isName(callback)) return answer
  const isJson = answer.headers['Content-Type'] === undefined && answer.status !== 304
  if (!isJson) return answer
  const { 'Content-Length': _, ...others } = answer.headers
  const headers = { ...others, 'Content-Type': 'text/javascript' }
  const before = `/* Service */${callback}(`
  if (answer.kind === 'whole') return { ...answer, headers, body: `${before}${answer.body.toString().trimEnd()});\n` }
  const { chunks } = answer
  async function* script() {
    let held = before
    for await (const chunk of chunks) {
      const text = chunk.toString()
      // Only a newline that may end the reply is held back until the next chunk: a feed must not be late. A heartbeat
      // is only a newline.
      const end = text.trimEnd().length || text.length
      yield held + text.slice(0, end)
      held = text.slice(end)
    }
    yield `${held.trimEnd()});\n`
  }
  return { ...answer, headers, chunks: script(), feed: undefined }
}

function callbackOf(call: Call): string | undefined {
  const callback = call.query('callback')
  return callback === '' ? undefined : callback
}

function isName(callback: string): boolean {
  return /^[A-Za-z0-9._[\]]+$/.test(callback)
}
