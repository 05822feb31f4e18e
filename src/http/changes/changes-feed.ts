/**
 * The feeds of changes, as texts in the order in which they go out. One that follows the database reads from its cursor
 * to the end, lets go of everything, waits for news and goes on: what it gave once it never gives again.
 */
import type { ChangeBlock } from '../../database/changes/changes.ts'
import type { ChangesReader } from '../../database/changes/changes-reader.ts'
import type { Database } from '../../database/database.ts'
import type { LastingView } from '../../database/database-view.ts'
import { type FeedText, HEARTBEAT } from './changes-text.ts'
import type { DirectOutput } from './feed-output.ts'
import type { FeedWaiter, Silence } from './feed-waiter.ts'

type Chunks = AsyncGenerator<string | Buffer>

export interface FeedParts {
  readonly reader: ChangesReader
  /** What was read before the head of the reply went out, so that an error could still be told. */
  readonly first: ChangeBlock
  readonly text: FeedText
}

/** The changes that are there, of one state as long as the client takes them. */
export async function* presentChanges(
  { reader, first, text }: FeedParts,
  view: LastingView,
  lastSequence: () => number,
): Chunks {
  const lines = new Lines(text)
  yield text.opening
  for (let block = first; ; block = await reader.nextIn(view)) {
    if (block.rows > 0) {
      const joint = lines.add(block)
      if (joint) yield joint
      if (Buffer.isBuffer(block.text)) yield block.text
      else yield* block.text
    }
    if (block.isEnd || reader.isSatisfied) break
  }
  yield text.closing(lastSequence(), await reader.pendingIn(view))
}

export interface FollowingParts extends FeedParts {
  readonly database: Database
  readonly waiter: FeedWaiter
  readonly silence: Silence
  /** Undefined for a feed that goes on; others end with the first round that gives something. */
  readonly firstRound: Round | undefined
  readonly right: RightToRead
  readonly direct: DirectOutput
}

/** What was there when somebody began to look. */
export interface Round {
  /** A reader that is not as fast as the writers would never come to an end. */
  readonly lastSequence: number
}

/** Whether the client may still read the database. */
export interface RightToRead {
  /** Whether it must be looked at anew. */
  readonly isDoubtful: boolean
  holds(): Promise<boolean>
}

/** The changes that are there, and those that come. */
export async function* followedChanges(parts: FollowingParts): Chunks {
  const { reader, text, waiter, database } = parts
  const lines = new Lines(text)
  if (text.opening !== '') yield text.opening
  let round = parts.firstRound
  waiter.restart()
  for (let block: ChangeBlock | undefined = parts.first; block; block = await nextBlock(parts)) {
    if (block.rows > 0) {
      const joint = lines.add(block)
      if (joint) yield joint
      if (Buffer.isBuffer(block.text)) yield block.text
      else yield* block.text
      waiter.restart()
    }
    if (reader.isSatisfied || waiter.isOver) break
    if (round && lines.count > 0 && (block.isEnd || reader.cursor >= round.lastSequence)) break
    if (block.isEnd) {
      const isGoingOn = yield* quietUntilNews(parts)
      if (!isGoingOn) break
      round &&= { lastSequence: database.changes.updateSequence }
    } else if (waiter.takeSilence()) {
      // Many changes that do not pass are silence too.
      if (!parts.silence.isFilled) break
      yield HEARTBEAT
      waiter.restart()
    }
  }
  yield text.closing(reader.cursor, await pendingOf(parts))
}

/** Undefined when the database is gone, or the client. */
async function nextBlock({ reader, database, waiter }: FollowingParts): Promise<ChangeBlock | undefined> {
  try {
    return await reader.next()
  } catch (error) {
    if (database.isDeleted || waiter.isOver) return undefined
    throw error
  }
}

async function pendingOf({ reader, database, waiter }: FollowingParts): Promise<number> {
  try {
    using view = database.view()
    return await reader.pendingIn(view)
  } catch (error) {
    if (database.isDeleted || waiter.isOver) return 0
    throw error
  }
}

/** Waits; false when it is time to end. */
async function* quietUntilNews(parts: FollowingParts): AsyncGenerator<string, boolean> {
  const { waiter, silence, database, reader } = parts
  if (!silence.isFilled && silence.afterMs === 0) return false
  for (;;) {
    // The patience of a client begins anew with each update, of whatever it is.
    if (!silence.isFilled) waiter.restart()
    const awaited = await waiter.wait(() => bringNews(parts))
    if (awaited === 'end' || database.isDeleted) return false
    if (awaited === 'silence') {
      if (!silence.isFilled) return false
      yield HEARTBEAT
      waiter.restart()
    } else {
      if (parts.right.isDoubtful && !(await parts.right.holds())) return false
      if (database.changes.updateSequence > reader.cursor) return true
    }
  }
}

/** Sends what was read for another listener just now, where that is the next of this feed and does not end it. */
function bringNews({ reader, waiter, database, right, firstRound, direct }: FollowingParts): boolean | Promise<void> {
  if (firstRound || right.isDoubtful || database.isDeleted) return false
  const block = reader.atHand()
  if (!block || block.rows === 0 || !Buffer.isBuffer(block.text)) return false
  const sent = direct.send(block.text)
  if (sent === false) return false
  reader.take(block)
  waiter.restart()
  return sent
}

/** Counts the lines of a feed, and tells what stands between those of two blocks. */
class Lines {
  readonly #between: Buffer
  #count = 0

  constructor({ frame }: FeedText) {
    this.#between = frame.between
  }

  /** How many there were. */
  get count(): number {
    return this.#count
  }

  /** Counts a block that has lines; gives what must be sent before it, if anything. */
  add({ rows }: ChangeBlock): Buffer | undefined {
    const isFirst = this.#count === 0
    this.#count += rows
    return isFirst || this.#between.length === 0 ? undefined : this.#between
  }
}
