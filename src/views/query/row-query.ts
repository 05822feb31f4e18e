/**
 * An answer made of rows, ready to be read: of a view, or of the list of all documents. It is of one state, and holds
 * that state until it is released.
 */

import type { RowBlock, RowBytes } from '../../database/listing/row-block.ts'
import { replyChunks, wholeReply } from './reply-text.ts'
import { textsOf } from './row-block.ts'
import type { RowQueryHead } from './row-query-head.ts'

export abstract class RowQuery implements Disposable {
  /** An `ETag`, quotes included: the same for as long as the answer is. Known before any row is read. */
  readonly tag: string
  #begun: Promise<BegunQuery> | undefined

  constructor(tag: string) {
    this.tag = tag
  }

  /** What the answer says beside its rows. */
  async head(): Promise<RowQueryHead> {
    return (await this.#begin()).head
  }

  /** The JSON texts of the rows, a block at a time; asked for once, after the head. */
  async *rows(): AsyncGenerator<string[]> {
    const { blocks } = await this.#begin()
    for await (const block of blocks()) yield await textsOf(block)
  }

  /** The whole reply where it is small and its rows are at hand already, else undefined; before anything else. */
  async whole(): Promise<Buffer | undefined> {
    const { head, all } = await this.#begin()
    return all && wholeReply(head, all)
  }

  /** The whole reply in pieces of about 64 KiB, head and all; in place of `head` and `rows`. */
  async *chunks(): AsyncGenerator<string | Buffer> {
    const { head, blocks } = await this.#begin()
    yield* replyChunks(head, blocks())
  }

  /** Lets go of the state. May be called twice. */
  abstract release(): void

  [Symbol.dispose](): void {
    this.release()
  }

  /** Finds out what goes before the first row; called once. */
  protected abstract begin(): Promise<BegunQuery>

  #begin(): Promise<BegunQuery> {
    this.#begun ??= this.begin()
    return this.#begun
  }
}

/** What was found out before the first row. */
export interface BegunQuery {
  readonly head: RowQueryHead
  /** All rows, where nothing has to be read for them any more. */
  readonly all?: RowBytes | undefined
  blocks(): AsyncGenerator<RowBlock>
}
