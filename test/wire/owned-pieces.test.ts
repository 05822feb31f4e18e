/** Pieces of a reply whose memory is freed as soon as they are sent: not before, and without waiting for the garbage collector. */
import { describe, expect, it } from 'vitest'
import type { RequestHandler } from '../../src/wire/connection.ts'
import { turns, wireServer } from './wire-server.ts'

const REQUEST = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const LAST_REQUEST = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
const PIECES = 24
const PIECE_BYTES = 256 * 1024

/** Each is memory of its own, and contains its number. */
function pieceOf(number: number, bytes = PIECE_BYTES): Buffer {
  return Buffer.allocUnsafeSlow(bytes).fill(String.fromCharCode(65 + (number % 26)))
}

function isFreed({ buffer }: Buffer): boolean {
  return buffer instanceof ArrayBuffer && buffer.detached
}

interface Sent {
  readonly pieces: Buffer[]
  /** How many pieces were not freed yet when the next one was made, at most. */
  mostHeld: number
  isDone: boolean
}

function sending(options: { readonly bytes: number; readonly isSized: boolean }): {
  handler: RequestHandler
  sent: Sent
} {
  const sent: Sent = { pieces: [], mostHeld: 0, isDone: false }
  const handler: RequestHandler = async (_, reply) => {
    reply.begin(200, '', options.isSized ? PIECES * options.bytes : undefined)
    for (let number = 0; number < PIECES && !reply.isGone; number++) {
      const piece = pieceOf(number, options.bytes)
      sent.pieces.push(piece)
      if (!reply.writeOwned(piece)) await reply.drained()
      sent.mostHeld = Math.max(sent.mostHeld, sent.pieces.filter((each) => !isFreed(each)).length)
    }
    reply.end()
    sent.isDone = true
  }
  return { handler, sent }
}

function expectedBody(replies: number, bytes: number): string {
  return Array.from({ length: PIECES }, (_, number) => pieceOf(number, bytes).toString('latin1'))
    .join('')
    .repeat(replies)
}

/** Without heads, and without what frames chunks. */
function contentOf(received: string): string {
  return received.replaceAll(/HTTP\/1\.1 200.*?\r\n\r\n/gs, '').replaceAll(/(?:\r\n)?[0-9a-f]+\r\n(?:\r\n)?/g, '')
}

describe.each([
  ['large pieces of a reply with a length', { bytes: PIECE_BYTES, isSized: true }],
  ['large pieces of a reply in chunks', { bytes: PIECE_BYTES, isSized: false }],
  ['small pieces of a reply with a length', { bytes: 20_000, isSized: true }],
  ['small pieces of a reply in chunks', { bytes: 20_000, isSized: false }],
])('%s', (_, options) => {
  it('reach a client whole, also one that reads slowly and asks ahead, and few are held at a time', async () => {
    const { handler, sent } = sending(options)
    const { open } = await wireServer(handler)
    const connection = await open()
    connection.write(REQUEST + LAST_REQUEST)
    for (let pause = 0; pause < 3; pause++) {
      connection.pause()
      await turns(20)
      connection.resume()
      await turns(2)
    }
    expect(contentOf(await connection.closed()) === expectedBody(2, options.bytes)).toBe(true)
    await expect.poll(() => sent.pieces.every(isFreed)).toBe(true)
    expect(sent.pieces.length).toBe(2 * PIECES)
    // What the socket takes before it asks to wait, and the piece that exceeds it.
    expect(sent.mostHeld * options.bytes).toBeLessThanOrEqual(4 * PIECE_BYTES)
  })
})

describe('pieces for a client that leaves', () => {
  it('are not freed while the socket has them, and end nothing but its own reply', async () => {
    const { handler, sent } = sending({ bytes: PIECE_BYTES, isSized: true })
    const { open, sockets } = await wireServer(handler)
    const leaving = await open()
    leaving.pause()
    leaving.write(REQUEST)
    await expect.poll(() => sockets[0]?.writableNeedDrain).toBe(true)
    expect(isFreed(sent.pieces.at(-1)!)).toBe(false)
    leaving.reset()
    await expect.poll(() => sockets[0]?.destroyed && sent.isDone).toBe(true)
    const next = await open()
    next.write(LAST_REQUEST)
    expect(contentOf(await next.closed()) === expectedBody(1, PIECE_BYTES)).toBe(true)
  })

  it('are freed at once when nothing can be sent any more', async () => {
    let late: Buffer | undefined
    const { open } = await wireServer(async (_, reply) => {
      reply.begin(200, '')
      await new Promise<void>((resolve) => void reply.onClose(resolve))
      late = pieceOf(0)
      expect(reply.writeOwned(late)).toBe(true)
    })
    const connection = await open()
    connection.write(REQUEST)
    await turns(20)
    connection.reset()
    await expect.poll(() => late !== undefined && isFreed(late)).toBe(true)
  })
})

describe('a piece for a HEAD request', () => {
  it('is freed and not sent', async () => {
    const piece = pieceOf(0)
    const { open } = await wireServer((_, reply) => {
      reply.begin(200, '', piece.length)
      reply.writeOwned(piece)
      reply.end()
    })
    const connection = await open()
    connection.write('HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    expect(await connection.closed()).toMatch(/\r\n\r\n$/)
    expect(isFreed(piece)).toBe(true)
  })
})
