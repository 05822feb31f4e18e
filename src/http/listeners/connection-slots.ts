/**
 * The connections that a server may have open at the same time, as slots. The nodes of a server share them: the primary
 * lends slots to the others, a few at a time, so that a connection seldom waits for another node.
 */

/** What listeners use of it. */
export interface ConnectionSlots {
  /** Slots that are in use here. */
  readonly used: number
  /** Takes a slot, and says whether there was one. Another node may have to be asked. */
  take(limit: number): boolean | Promise<boolean>
  free(): void
}

/** All slots of a server. */
export class ServerSlots implements ConnectionSlots {
  #used = 0
  #lent = 0
  readonly #borrowers = new Map<object, number>()

  get used(): number {
    return this.#used
  }

  take(limit: number): boolean {
    if (this.#used + this.#lent >= limit) return false
    this.#used++
    return true
  }

  free(): void {
    this.#used--
  }

  /** Lends up to as many as are wanted, and says how many. */
  lend(borrower: object, wanted: number, limit: number): number {
    const granted = Math.max(0, Math.min(wanted, limit - this.#used - this.#lent))
    this.add(borrower, granted)
    return granted
  }

  /** The borrower has so many, whoever lent them. */
  add(borrower: object, count: number): void {
    this.#set(borrower, this.#of(borrower) + count)
  }

  takeBack(borrower: object, count: number): void {
    this.#set(borrower, Math.max(0, this.#of(borrower) - count))
  }

  /** The borrower is gone, and its connections with it. */
  forget(borrower: object): void {
    this.#set(borrower, 0)
    this.#borrowers.delete(borrower)
  }

  #of(borrower: object): number {
    return this.#borrowers.get(borrower) ?? 0
  }

  #set(borrower: object, count: number): void {
    this.#lent += count - this.#of(borrower)
    this.#borrowers.set(borrower, count)
  }
}

/** How slots come from another node and go back to it. */
export interface SlotLender {
  /** How many were lent; undefined where nobody is there to ask. */
  borrow(wanted: number): Promise<number | undefined>
  giveBack(count: number): void
}

/** So many nodes may have slots at hand that they do not use, before others are short of them. */
const PORTIONS = 64

/** The slots of a node that borrows them. */
export class BorrowedSlots implements ConnectionSlots {
  readonly #lender: SlotLender
  #used = 0
  #held = 0
  #portion = 1
  #borrowing: Promise<number | undefined> | undefined

  constructor(lender: SlotLender) {
    this.#lender = lender
  }

  get used(): number {
    return this.#used
  }

  /** Those that are borrowed, for a lender that does not know of them. */
  get held(): number {
    return this.#held
  }

  take(limit: number): boolean | Promise<boolean> {
    this.#portion = Math.max(1, Math.floor(limit / PORTIONS))
    if (this.#used >= limit) return false
    return this.#takeHeld() || this.#takeBorrowed(limit)
  }

  free(): void {
    this.#used--
    const idle = this.#held - this.#used
    // One that is scarce goes back at once; of many, some stay for the next connections.
    const kept = this.#portion === 1 ? 0 : this.#portion
    if (idle < 2 * this.#portion && kept > 0) return
    this.#held -= idle - kept
    this.#lender.giveBack(idle - kept)
  }

  #takeHeld(): boolean {
    if (this.#used >= this.#held) return false
    this.#used++
    return true
  }

  async #takeBorrowed(limit: number): Promise<boolean> {
    while (!this.#takeHeld()) {
      if (this.#used >= limit) return false
      this.#borrowing ??= this.#borrow()
      const granted = await this.#borrowing
      if (granted === 0) return false
      // Without the other node nothing is answered. The connection waits for the next one, which is told of it.
      if (granted === undefined && this.#used >= this.#held) this.#held++
    }
    return true
  }

  async #borrow(): Promise<number | undefined> {
    const granted = await this.#lender.borrow(this.#portion)
    this.#held += granted ?? 0
    this.#borrowing = undefined
    return granted
  }
}
