/**
 * Sends a feed to its client. Its head goes out before there is anything to say. A text that many clients get is framed
 * as a chunk once for all of them, and goes to each in one write: with thousands of listeners that is most of the work.
 */
import type { ServerResponse } from 'node:http'
import { taken } from './back-pressure.ts'

export async function sendFeed(
  response: ServerResponse,
  texts: AsyncIterable<string | Buffer>,
  direct?: DirectOutput,
): Promise<void> {
  response.flushHeaders()
  direct?.open(response)
  for await (const text of texts) {
    // Leaving the loop ends the work of who makes the texts.
    if (response.destroyed) return
    const written = write(response, text)
    if (written !== true) await written
  }
  response.end()
}

/**
 * Lets who makes the texts of a feed send one at once, while the next one is being waited for: the same for thousands then
 * takes no turn of each of them. There may be none: then the texts go through other hands before they are sent.
 */
export class DirectOutput {
  #response: ServerResponse | undefined

  /** From now on texts can be sent to this client. */
  open(response: ServerResponse): void {
    this.#response = response
  }

  /** False where it cannot go this way. A promise where nothing may follow before the client has taken it. */
  send(text: Buffer): boolean | Promise<void> {
    const response = this.#response
    return response !== undefined && !response.destroyed && write(response, text)
  }
}

/** True when there may be more at once, or else when the client has taken it. */
function write(response: ServerResponse, text: string | Buffer): true | Promise<void> {
  const { socket } = response
  // Without a socket of its own it waits for the replies before it, and without chunks it is an old client.
  if (!socket || !response.chunkedEncoding || typeof text === 'string') return response.write(text) || taken(response)
  return socket.write(chunkOf(text)) || taken(socket)
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
