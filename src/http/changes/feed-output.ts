/**
 * Sends a feed to its client. Its head goes out before there is anything to say. A text that many clients get is framed
 * as a chunk once for all of them, and goes to each in one write: with thousands of listeners that is most of the work.
 */
import { chunkOf, type Reply } from '../../wire/reply.ts'

export async function sendFeed(
  reply: Reply,
  texts: AsyncIterable<string | Buffer>,
  direct?: DirectOutput,
): Promise<void> {
  // The head with the opening, and the last change with the end: a client that waits gets each in one piece.
  reply.corkUntilNextTick()
  reply.flush()
  direct?.open(reply)
  for await (const text of texts) {
    // Leaving the loop ends the work of who makes the texts.
    if (reply.isGone) return
    reply.corkUntilNextTick()
    const written = write(reply, text)
    if (written !== true) await written
  }
  reply.end()
}

/**
 * Lets who makes the texts of a feed send one at once, while the next one is being waited for: the same for thousands then
 * takes no turn of each of them. There may be none: then the texts go through other hands before they are sent.
 */
export class DirectOutput {
  #reply: Reply | undefined

  /** From now on texts can be sent to this client. */
  open(reply: Reply): void {
    this.#reply = reply
  }

  /** False where it cannot go this way. A promise where nothing may follow before the client has taken it. */
  send(text: Buffer): boolean | Promise<void> {
    const reply = this.#reply
    return reply !== undefined && !reply.isGone && write(reply, text)
  }
}

/** True when there may be more at once, or else when the client has taken it. */
function write(reply: Reply, text: string | Buffer): true | Promise<void> {
  const isShared = reply.isChunked && typeof text !== 'string'
  return (isShared ? reply.writeChunk(sharedChunk(text)) : reply.write(text)) || reply.drained()
}

const chunks = new WeakMap<Buffer, Buffer>()

/** The text as it goes over the wire. */
function sharedChunk(text: Buffer): Buffer {
  const known = chunks.get(text)
  if (known) return known
  const chunk = chunkOf(text)
  chunks.set(text, chunk)
  return chunk
}
