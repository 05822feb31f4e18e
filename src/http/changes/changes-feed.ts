/**
 * The feeds of changes, as texts in the order in which they are sent. A feed that follows the database reads from its
 * cursor to the end, releases the snapshot, waits for an update and continues after its cursor.
 */
import type { ChangeBlock } from '../../database/changes/changes.ts'
import type { ChangesReader } from '../../database/changes/changes-reader.ts'
import type { Database } from '../../database/database.ts'
import type { LastingView } from '../../database/database-view.ts'
import { type FeedText, HEARTBEAT } from './changes-text.ts'
import type { Feed, IdlePolicy } from './feed.ts'

type Chunks = AsyncGenerator<string | Buffer>

export interface FeedParts {
  readonly reader: ChangesReader
  /** What was read before the head of the reply was sent, so that an error could still be reported. */
  readonly first: ChangeBlock
  readonly text: FeedText
}

/** The existing changes, of one snapshot for as long as the client reads them. */
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
  readonly feed: Feed
  readonly idle: IdlePolicy
  /** Undefined for a continuous feed; others end with the first round that has changes. */
  readonly firstRound: Round | undefined
  readonly right: RightToRead
}

/** The update sequence when the feed began. */
export interface Round {
  /** Without it a reader slower than the writers would never finish. */
  readonly lastSequence: number
}

/** Whether the client may still read the database. */
export interface RightToRead {
  /** Whether the right must be checked again. */
  readonly isDoubtful: boolean
  holds(): Promise<boolean>
}

/** The existing changes, then new ones. */
export async function* followedChanges(parts: FollowingParts): Chunks {
  const { reader, text, feed, database } = parts
  const lines = new Lines(text)
  if (text.opening !== '') yield text.opening
  let round = parts.firstRound
  feed.restartIdleTime()
  for (let block: ChangeBlock | undefined = parts.first; block; block = await nextBlock(parts)) {
    if (block.rows > 0) {
      const joint = lines.add(block)
      if (joint) yield joint
      if (Buffer.isBuffer(block.text)) yield block.text
      else yield* block.text
      feed.restartIdleTime()
    }
    if (reader.isSatisfied || feed.isOver) break
    if (round && lines.count > 0 && (block.isEnd || reader.cursor >= round.lastSequence)) break
    if (block.isEnd) {
      const goesOn = yield* heartbeatsUntilUpdate(parts)
      if (!goesOn) break
      round &&= { lastSequence: database.changes.updateSequence }
    } else if (feed.takeIdle()) {
      // Many changes that do not pass the filter are idle time too.
      if (!parts.idle.sendsHeartbeat) break
      yield HEARTBEAT
      feed.restartIdleTime()
    }
  }
  yield text.closing(reader.cursor, await pendingOf(parts))
}

/** Undefined when the database is gone, or the client. */
async function nextBlock({ reader, database, feed }: FollowingParts): Promise<ChangeBlock | undefined> {
  try {
    return await reader.next()
  } catch (error) {
    if (database.isDeleted || feed.isOver) return undefined
    throw error
  }
}

async function pendingOf({ reader, database, feed }: FollowingParts): Promise<number> {
  try {
    using view = database.view()
    return await reader.pendingIn(view)
  } catch (error) {
    if (database.isDeleted || feed.isOver) return 0
    throw error
  }
}

/** Waits; false when it is time to end. */
async function* heartbeatsUntilUpdate(parts: FollowingParts): AsyncGenerator<string, boolean> {
  const { feed, idle, database, reader } = parts
  if (!idle.sendsHeartbeat && idle.afterMs === 0) return false
  for (;;) {
    // The timeout of a client starts again with every update, also of other documents.
    if (!idle.sendsHeartbeat) feed.restartIdleTime()
    const what = await feed.wait(() => pushShared(parts))
    if (what === 'end' || database.isDeleted) return false
    if (what === 'idle') {
      if (!idle.sendsHeartbeat) return false
      yield HEARTBEAT
      feed.restartIdleTime()
    } else {
      if (parts.right.isDoubtful && !(await parts.right.holds())) return false
      if (database.changes.updateSequence > reader.cursor) return true
    }
  }
}

/** Pushes what was read for another feed just now, where that is what comes next in this one and does not end it. */
function pushShared({ reader, feed, database, right, firstRound }: FollowingParts): boolean | Promise<void> {
  if (firstRound || right.isDoubtful || database.isDeleted) return false
  const block = reader.atHand()
  if (!block || block.rows === 0 || !Buffer.isBuffer(block.text)) return false
  const pushed = feed.push(block.text)
  if (pushed === false) return false
  reader.take(block)
  feed.restartIdleTime()
  return pushed
}

/** Counts the lines of a feed, and gives the separator between two blocks. */
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
