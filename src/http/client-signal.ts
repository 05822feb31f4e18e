/** Tells those who work for a client that it is gone: nobody waits for what they make. */
import type { Call } from './call.ts'

/** Aborts when the connection ends, and when the reply is sent. */
export function clientSignal({ response }: Call): AbortSignal {
  const gone = new AbortController()
  const end = () => gone.abort(new Error('The client is gone.'))
  if (response.destroyed) end()
  else response.once('close', end)
  return gone.signal
}
