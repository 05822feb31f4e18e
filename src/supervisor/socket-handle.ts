/**
 * The socket below a `net.Server`. Node sends a whole server to another process only so that both accept connections.
 * The supervisor must not accept any, so the handle is sent, which Node's own cluster does too. It is not documented: where it is
 * missing no socket is kept, and connections are refused while a server is restarted.
 */
import type { SendHandle } from 'node:child_process'
import type { Server } from 'node:net'

export function socketHandle(server: Server): SendHandle | undefined {
  const handle: unknown = Reflect.get(server, '_handle')
  return isSendable(handle) ? handle : undefined
}

export function closeHandle(handle: SendHandle): void {
  if (handle && 'close' in handle) handle.close()
}

/** The types of Node know documented handles only. */
function isSendable(handle: unknown): handle is SendHandle {
  return typeof handle === 'object' && handle !== null && process.platform !== 'win32'
}
