/** How much of what was written to a socket the system has not taken yet. */
import type { Socket } from 'node:net'

/**
 * Node's own timeouts of sockets look at the same number to tell a slow client from one that is gone; there is no public
 * name for it. Where it is not there, nothing seems to move.
 */
export function unsentBytes(socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle')
  const size: unknown =
    typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'writeQueueSize') : undefined
  return socket.writableLength + (typeof size === 'number' ? size : 0)
}
