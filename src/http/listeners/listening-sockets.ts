/**
 * Listening sockets that outlive their server process. While the server restarts, the system keeps accepting connections
 * on them, and the next process answers them: clients wait instead of being refused.
 */
import type { Server } from 'node:net'

export interface ListeningAddress {
  readonly host: string
  /** 0, where a socket is asked for, is any. */
  readonly port: number
  readonly isSecure: boolean
}

export interface ListeningSockets {
  /** What `Server.listen` takes, or undefined where no socket of this address is kept. */
  take(address: ListeningAddress): Promise<object | undefined>
  /** Keeps a socket from now on, also when its server is closed. The port is the real one. */
  keep(address: ListeningAddress, server: Server): void
  /** Closes all sockets but these. */
  keepOnly(addresses: readonly ListeningAddress[]): Promise<void>
}

/** For a server without a supervisor: a socket closes with its listener. */
export const unsharedSockets: ListeningSockets = {
  take: async () => undefined,
  keep: () => {},
  keepOnly: async () => {},
}
