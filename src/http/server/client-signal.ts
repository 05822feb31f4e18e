/** Tells those who work for a client that it is gone: nobody waits for what they make. */
import { RequestError } from '../../document/request-error.ts'
import type { Call } from './call.ts'

/** For those who may not have to wait at all: a signal is made when they do. */
export class CallClient {
  readonly #call: Call
  #signal: AbortSignal | undefined

  constructor(call: Call) {
    this.#call = call
  }

  get signal(): AbortSignal {
    this.#signal ??= clientSignal(this.#call)
    return this.#signal
  }
}

/** Aborts when the connection ends, and when the reply is sent. */
export function clientSignal({ reply }: Call): AbortSignal {
  const gone = new AbortController()
  reply.onClose(() => gone.abort(GONE))
  return gone.signal
}

/**
 * One for all: it is told so often that making it anew would cost more than all else here. No failure of the server:
 * there is nobody to be told, and nothing to complain of.
 */
const GONE = new RequestError(499, 'client_gone', 'The client is gone.')
