/**
 * One exchange over a socket of its own: bytes go out in the way that the case says, and what comes back is kept. It ends
 * when the server has closed; a server that does not close for a client that has ended its side has forgotten it.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { isWholeReply } from './replies.ts'

export type Manner =
  /** In one piece, or cut at these places. */
  | { readonly kind: 'whole'; readonly cuts: readonly number[] }
  /** Pieces with a pause between them. */
  | { readonly kind: 'slow'; readonly cuts: readonly number[] }
  /** Only so much of it, then the end of the client's side. */
  | { readonly kind: 'cut short'; readonly at: number }
  /** Only so much of it, then a reset. */
  | { readonly kind: 'broken off'; readonly at: number }
  /** It goes on with this piece until the server answers or closes, or the client has enough. */
  | { readonly kind: 'endless'; readonly piece: Buffer }
  /** In one piece, and the server is asked to close. */
  | { readonly kind: 'until closed' }

export interface Outcome {
  /** Latin-1 of all that came. */
  readonly received: string
  /** Whether the server closed the connection, at the latest after the client had ended its side. */
  readonly isClosed: boolean
}

/** How long a client waits for more before it ends its side. Ending early loses a little of the test and breaks nothing. */
const PATIENCE_MS = 60
/** The server closes what its client has ended; on the busiest machine within this. */
const HANG_MS = 25_000
const ENDLESS_BYTES = 2 * 1024 * 1024
const SLOW_MS = 5

/** Where a reply must come, the client waits for its beginning; elsewhere it may wait in vain. */
export function exchange(
  { hostname, port }: URL,
  bytes: Buffer,
  manner: Manner,
  { mustReply = false, hangMs = HANG_MS } = {},
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true })
    const pieces: string[] = []
    let isOver = false
    let isSent = false
    let patience: NodeJS.Timeout | undefined
    let hang: NodeJS.Timeout | undefined
    const finish = (isClosed: boolean) => {
      if (isOver) return
      isOver = true
      clearTimeout(patience)
      clearTimeout(hang)
      socket.destroy()
      resolve({ received: pieces.join(''), isClosed })
    }
    const endSide = () => {
      if (isOver || hang) return
      socket.end()
      hang = setTimeout(() => finish(false), hangMs)
    }
    const waitForMore = () => {
      clearTimeout(patience)
      patience = setTimeout(endSide, PATIENCE_MS)
    }
    socket
      .on('data', (data) => {
        pieces.push(data.toString('latin1'))
        if (hang) return
        if (manner.kind === 'until closed') return
        if (isSent && isWholeReply(pieces.join(''))) endSide()
        else waitForMore()
      })
      .on('end', () => finish(true))
      .on('close', () => finish(true))
      .on('error', (error: NodeJS.ErrnoException) => {
        if (error.code === 'ECONNREFUSED') reject(error)
        else finish(true)
      })
      .on('connect', async () => {
        await send(socket, bytes, manner, () => isOver || pieces.length > 0)
        isSent = true
        if (manner.kind === 'until closed') hang = setTimeout(() => finish(false), hangMs)
        else if (manner.kind === 'broken off') {
          socket.resetAndDestroy()
          finish(true)
        } else if (manner.kind !== 'whole' && manner.kind !== 'slow') endSide()
        else if (isWholeReply(pieces.join(''))) endSide()
        else if (!mustReply || pieces.length > 0) waitForMore()
        else patience = setTimeout(endSide, hangMs)
      })
  })
}

async function send(socket: Socket, bytes: Buffer, manner: Manner, isAnswered: () => boolean): Promise<void> {
  if (manner.kind === 'cut short' || manner.kind === 'broken off') {
    await written(socket, bytes.subarray(0, manner.at))
  } else if (manner.kind === 'endless') {
    await written(socket, bytes)
    for (let sent = 0; sent < ENDLESS_BYTES && !isAnswered(); sent += manner.piece.length) {
      await written(socket, manner.piece)
    }
  } else {
    let from = 0
    for (const cut of [...('cuts' in manner ? manner.cuts : []), bytes.length]) {
      await written(socket, bytes.subarray(from, cut))
      if (manner.kind === 'slow') await pause(SLOW_MS)
      from = cut
    }
  }
}

/** Resolves when the piece is on its way, or the socket is closed. */
function written(socket: Socket, piece: Buffer): Promise<void> {
  if (socket.destroyed || !socket.writable) return Promise.resolve()
  return new Promise((resolve) => {
    socket.once('close', resolve)
    socket.write(piece, () => {
      socket.off('close', resolve)
      resolve()
    })
  })
}
