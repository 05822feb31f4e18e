/**
 * The handle below a socket, by which it goes on in another process. Node sends a whole socket to another process only by
 * giving it up at once, and then loses it with a receiver that dies. So the handle is sent, as for listening sockets, and this
 * process has the socket too until the other one has it for certain. Handles are not documented: where one is not as it is
 * known here, the socket stays where it is.
 */
import type { SendHandle } from 'node:child_process'
import { Socket } from 'node:net'

/** What Node has below a socket. */
interface StreamHandle {
  reading: boolean
  readStop(): number
}

/** Stops at once: what the client sends from now on stays with the system. Undefined where that is not possible. */
export function stopReading(socket: Socket): SendHandle | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  if ('encrypted' in socket || !isStreamHandle(handle) || process.platform === 'win32') return undefined
  // So that the socket knows, and can start again.
  handle.reading = false
  return handle.readStop() === 0 ? handle : undefined
}

export function startReading(socket: Socket): void {
  if (!socket.destroyed) socket._read(0)
}

/** The socket of a handle that came from another process, with what was received there. */
export function socketOf(handle: SendHandle, received: Buffer): Socket {
  const options: object = { handle, allowHalfOpen: true, readable: true, writable: true }
  const socket = new Socket(options)
  if (received.length > 0) socket.unshift(received)
  return socket
}

export function closeHandle(handle: SendHandle): void {
  if (handle && 'close' in handle) handle.close()
}

/** The types of Node know documented handles only. */
function isStreamHandle(handle: unknown): handle is StreamHandle & SendHandle {
  return typeof handle === 'object' && handle !== null && 'readStop' in handle && 'reading' in handle
}
