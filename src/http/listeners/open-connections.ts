/** Counts the connections of all listeners of a server, also of those that are closing: descriptors are the process's. */
import type { Socket } from 'node:net'

/** So many may be told at a time that there is no room; the others are cut off. */
const TOLD_LIMIT = 64

export type Admission = 'served' | 'told' | 'cut off'

export class OpenConnections {
  #served = 0
  #told = 0

  /** What to do with a new connection. */
  admit(socket: Socket, limit: number): Admission {
    if (this.#served < limit) {
      this.#served++
      socket.once('close', () => this.#served--)
      return 'served'
    }
    if (this.#told >= TOLD_LIMIT) return 'cut off'
    this.#told++
    socket.once('close', () => this.#told--)
    return 'told'
  }
}
