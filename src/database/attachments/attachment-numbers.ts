/**
 * The numbers under which a database stores the bytes of its attachments. They ascend, and each is assigned once, also where
 * several servers assign them.
 */
import type { KeyRange, Store } from '../../storage/store.ts'
import { ATTACHMENT_PREFIX, afterPrefix, attachmentKey, numberOfAttachmentKey } from '../layout/keys.ts'

const KEYS_A_READ = 1000

export class AttachmentNumbers {
  readonly #store: Store
  #last: Promise<number> | undefined

  constructor(store: Store) {
    this.#store = store
  }

  /** The highest number assigned so far. */
  async last(): Promise<number> {
    // Other servers assign numbers too.
    if (this.#store.sharing) return this.#findLast()
    return this.#last ?? this.#keep(this.#findLast())
  }

  /** Assigns a number. */
  async next(): Promise<number> {
    if (this.#store.sharing) return this.#store.sharing.nextNumber()
    const last = this.last()
    const next = last.then((number) => number + 1)
    // Set before any other call can read it: a number is assigned once.
    return this.#keep(next)
  }

  /**
   * The numbers of all stored attachments, each once. Seeks from the first chunk of one to the first chunk of the next; where
   * each read is a round trip it reads many keys at a time, and seeks beyond the last of them.
   */
  async *stored(upTo: number): AsyncGenerator<number> {
    const rows = this.#store.sharing ? KEYS_A_READ : 1
    for (let next = 0; next <= upTo; ) {
      using snapshot = this.#store.snapshot()
      const range = { from: attachmentKey(next, 0), to: attachmentKey(upTo + 1, 0) }
      const page = await snapshot.page(range, { rows, keysOnly: true })
      snapshot.release()
      for (let row = 0; row < page.length; row++) {
        const number = numberOfAttachmentKey(page.key(row))
        if (number < next) continue
        next = number + 1
        yield number
      }
      if (page.next === undefined) return
    }
  }

  /** A failed read is not kept: the next caller reads again. */
  #keep(number: Promise<number>): Promise<number> {
    this.#last = number
    number.catch(() => {
      if (this.#last === number) this.#last = undefined
    })
    return number
  }

  async #findLast(): Promise<number> {
    using snapshot = this.#store.snapshot()
    const range: KeyRange = { from: ATTACHMENT_PREFIX, to: afterPrefix(ATTACHMENT_PREFIX), reverse: true }
    const page = await snapshot.page(range, { rows: 1, keysOnly: true })
    return page.length > 0 ? numberOfAttachmentKey(page.key(0)) : 0
  }
}
