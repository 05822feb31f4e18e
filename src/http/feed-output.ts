/**
 * Sends a feed to its client. Its head goes out before there is anything to say. A text that many clients get is framed
 * as a chunk once for all of them, and goes to each in one write: with thousands of listeners that is most of the work.
 */
import type { ServerResponse } from 'node:http'
import { taken } from './back-pressure.ts'

export async function sendFeed(response: ServerResponse, texts: AsyncIterable<string | Buffer>): Promise<void> {
  response.flushHeaders()
  for await (const text of texts) {
    // Leaving the loop ends the work of who makes the texts.
    if (response.destroyed) return
    const { socket } = response
    // Without a socket of its own it waits for the replies before it, and without chunks it is an old client.
    if (!socket || !response.chunkedEncoding || typeof text === 'string') {
      if (!response.write(text)) await taken(response)
    } else if (!socket.write(chunkOf(text))) await taken(socket)
  }
  response.end()
}

const chunks = new WeakMap<Buffer, Buffer>()

/** The text as it goes over the wire. */
function chunkOf(text: Buffer): Buffer {
  const known = chunks.get(text)
  if (known) return known
  const chunk = Buffer.concat([Buffer.from(`${text.length.toString(16)}\r\n`), text, LINE_END])
  chunks.set(text, chunk)
  return chunk
}

const LINE_END = Buffer.from('\r\n')
