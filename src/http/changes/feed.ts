/**
 * A feed: a reply that continues for as long as its client listens. It waits for updates, for its idle time to pass, or for
 * its end, when the client is gone or the listener shuts down. While it waits it holds nothing but this object: no timer of
 * its own, no snapshot of a database.
 *
 * Invariant: what the feed has to send is sent once, in order, by one of two paths and never by both at a time.
 * - Pull: the producer of the texts is woken by an update, reads what is new and yields it; `sendFeed` writes it, and asks for
 *   the next text only when the client has taken this one.
 * - Push: while the producer waits, everything it yielded is written. Only then, and only while the client's buffer is
 *   drained, an update may write a text that was read for another feed straight to the client (`push`), without waking the
 *   producer. Thousands of feeds get the same text that way, framed as a chunk once for all of them.
 * An update that arrives while the producer is busy is remembered, so that the next wait ends at once: no update is lost.
 */
import type { Deadline, Deadlines } from '../../runtime/deadlines.ts'
import { chunkOf, type Reply } from '../../wire/reply.ts'

/** What ended a wait. */
export type FeedEvent = 'update' | 'idle' | 'end'

/** What happens after so much idle time: a heartbeat, or the end. */
export interface IdlePolicy {
  readonly afterMs: number
  readonly sendsHeartbeat: boolean
}

/**
 * Sends an update to the client without waking the producer of the feed. False if it cannot; a promise if nothing else
 * may be sent before the client has taken it.
 */
export type PushUpdate = () => boolean | Promise<void>

export class Feed implements Disposable {
  readonly #reply: Reply
  readonly #deadline: Deadline
  readonly #unsubscribeClose: () => void
  readonly #unsubscribeShutdown: () => void
  #isOpen = false
  #hasUpdate = false
  #isIdle = false
  #isOver = false
  /** A pushed text is not drained yet. */
  #isClientBusy = false
  #waiter: Waiter | undefined

  constructor(reply: Reply, deadlines: Deadlines, { afterMs }: IdlePolicy) {
    this.#reply = reply
    this.#deadline = deadlines.deadline(afterMs, () => {
      this.#isIdle = true
      this.#wake()
    })
    this.#unsubscribeClose = reply.onClose(this.#end)
    this.#unsubscribeShutdown = reply.onShutdown(this.#end)
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** For `sendFeed`: its texts go to the client as they are, so they may be pushed from now on. */
  open(): void {
    this.#isOpen = true
  }

  /** There may be something new to send. */
  notify(): void {
    const isPushed = this.#waiter !== undefined && !this.#isClientBusy && !this.#isOver && this.#pushTo(this.#waiter)
    if (isPushed) return
    this.#hasUpdate = true
    this.#wake()
  }

  /** Writes a text to the client. False where it cannot be pushed; a promise where the client must take it first. */
  push(text: Buffer): boolean | Promise<void> {
    return this.#isOpen && !this.#reply.isGone && write(this.#reply, text)
  }

  /** The idle time counts from now on. */
  restartIdleTime(): void {
    this.#isIdle = false
    this.#deadline.restart()
  }

  /** Whether the idle time has passed; says so once. */
  takeIdle(): boolean {
    const isIdle = this.#isIdle
    this.#isIdle = false
    return isIdle
  }

  /** What comes first; at once if it came since the last time. A pushed update does not end the wait. */
  wait(push: PushUpdate = () => false): Promise<FeedEvent> {
    return new Promise((resolve) => {
      this.#waiter = { resolve, push }
      this.#wake()
    })
  }

  [Symbol.dispose](): void {
    this.#end()
    this.#deadline.cancel()
    this.#unsubscribeClose()
    this.#unsubscribeShutdown()
  }

  readonly #end = (): void => {
    this.#isOver = true
    this.#wake()
  }

  #pushTo({ push }: Waiter): boolean {
    const pushed = push()
    if (typeof pushed === 'boolean') return pushed
    this.#isClientBusy = true
    pushed.then(() => {
      this.#isClientBusy = false
      this.#wake()
    })
    return true
  }

  #wake(): void {
    const waiter = this.#waiter
    if (!waiter) return
    const event = this.#nextEvent()
    if (!event) return
    this.#waiter = undefined
    waiter.resolve(event)
  }

  #nextEvent(): FeedEvent | undefined {
    if (this.#isOver) return 'end'
    if (this.#isClientBusy) return undefined
    if (this.#hasUpdate) {
      this.#hasUpdate = false
      return 'update'
    }
    return this.takeIdle() ? 'idle' : undefined
  }
}

interface Waiter {
  readonly push: PushUpdate
  resolve(event: FeedEvent): void
}

/** Sends the texts of a feed. Its head goes out before there is anything to send. Without a feed nothing is pushed. */
export async function sendFeed(reply: Reply, texts: AsyncIterable<string | Buffer>, feed?: Feed): Promise<void> {
  // The head with the opening, and the last change with the end: a client that waits gets each in one piece.
  reply.corkUntilNextTick()
  reply.flush()
  feed?.open()
  for await (const text of texts) {
    // Leaving the loop ends the producer of the texts.
    if (reply.isGone) return
    reply.corkUntilNextTick()
    const written = write(reply, text)
    if (written !== true) await written
  }
  reply.end()
}

/** True when more may be written at once, or else when the client has taken it. */
function write(reply: Reply, text: string | Buffer): true | Promise<void> {
  const isShared = reply.isChunked && typeof text !== 'string'
  return (isShared ? reply.writeChunk(sharedChunk(text)) : reply.write(text)) || reply.drained()
}

const chunks = new WeakMap<Buffer, Buffer>()

/** The text as it is sent, made once for all feeds that send it. */
function sharedChunk(text: Buffer): Buffer {
  const known = chunks.get(text)
  if (known) return known
  const chunk = chunkOf(text)
  chunks.set(text, chunk)
  return chunk
}
