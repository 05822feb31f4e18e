/** One request as it came in. */
import type { IncomingBody } from './incoming-body.ts'
import type { RequestHead, RequestHeaders } from './request-head.ts'

/** The two ends of a connection. */
export interface SocketAddresses {
  /** The address of the client. */
  readonly remoteAddress: string | undefined
  /** Where it reached the server. */
  readonly localAddress: string | undefined
  readonly localPort: number | undefined
  /** Whether nobody between can read it. */
  readonly isEncrypted: boolean
}

export class Request {
  readonly method: string
  /** The target as it was sent. */
  readonly url: string
  readonly headers: RequestHeaders
  readonly body: IncomingBody
  readonly addresses: SocketAddresses

  constructor({ method, target, headers }: RequestHead, body: IncomingBody, ends: SocketAddresses) {
    this.method = method
    this.url = target
    this.headers = headers
    this.body = body
    this.addresses = ends
  }

  /** Whether there is a body, be it an empty one. */
  get hasBody(): boolean {
    return this.headers['content-length'] !== undefined || this.headers['transfer-encoding'] !== undefined
  }
}
