/** Counts the open connections of all listeners of a server, closing ones included, since they share its descriptors. */
import type { Socket } from 'node:net'

/** Connections beyond the limit that may be answered with 503 at the same time; further ones are cut off. */
const REFUSED_LIMIT = 64

export type Admission = 'served' | 'refused' | 'cut off'

export class OpenConnections {
  #served = 0
  #refused = 0

  /** What to do with a new connection. */
  admit(socket: Socket, limit: number): Admission {
    if (this.#served < limit) {
      this.#served++
      socket.once('close', () => this.#served--)
      return 'served'
    }
    if (this.#refused >= REFUSED_LIMIT) return 'cut off'
    this.#refused++
    socket.once('close', () => this.#refused--)
    return 'refused'
  }
}
