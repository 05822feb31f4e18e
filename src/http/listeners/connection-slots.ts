/**
 * The connections that a server may have open at the same time, as slots. The nodes of a server share them: the primary
 * lends slots to the others, a few at a time, so that a connection seldom waits for another node.
 */

/** What listeners use of it. */
export interface ConnectionSlots {
  /** Slots that are in use here. */
  readonly used: number
  /** Whether other nodes accept connections too. */
  readonly isShared: boolean
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

  get isShared(): boolean {
    return this.#borrowers.size > 0
  }

  take(limit: number): boolean {
    if (this.#used + this.#lent >= limit) return false
    this.#used++
    return true
  }

  free(): void {
    this.#used--
  }

  /** For a connection that another node passes on, which gives its slot back. */
  takeOver(): void {
    this.#used++
  }

  /** Lends up to as many as are wanted, and says how many. What the borrower says it holds replaces what was counted. */
  lend(borrower: object, { wanted, held }: { wanted: number; held: number }, limit: number): number {
    this.#set(borrower, held)
    const granted = Math.max(0, Math.min(wanted, limit - this.#used - this.#lent))
    this.#set(borrower, held + granted)
    return granted
  }

  /** A new borrower has so many, whoever lent them. If it has borrowed already, it has said so then. */
  know(borrower: object, held: number): void {
    if (!this.#borrowers.has(borrower)) this.#set(borrower, held)
  }

  takeBack(borrower: object, count: number): void {
    // A borrower that is not known yet will say what it has left.
    if (this.#borrowers.has(borrower)) this.#set(borrower, Math.max(0, this.#of(borrower) - count))
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
  /** How many were lent, to who holds so many; undefined where nobody is there to ask. */
  borrow(wanted: number, held: number): Promise<number | undefined>
  giveBack(count: number): void
}

/** So many nodes may have slots at hand that they do not use, before others are short of them. */
const PORTIONS = 64

/** Without an answer of the lender, connections are counted by this node alone. */
const LENDER_TIMEOUT_MS = 1000

/** The slots of a node that borrows them. */
export class BorrowedSlots implements ConnectionSlots {
  readonly isShared = true
  readonly #lender: SlotLender
  readonly #timeoutMs: number
  #used = 0
  #held = 0
  /** Passed on, and not closed here yet. */
  #passedOn = 0
  #portion = 1
  /** The one question that the lender has not answered. */
  #asked: Promise<number | undefined> | undefined
  /** The same, as long as connections wait for the answer. */
  #borrowing: Promise<number | undefined> | undefined

  constructor(lender: SlotLender, timeoutMs = LENDER_TIMEOUT_MS) {
    this.#lender = lender
    this.#timeoutMs = timeoutMs
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
    if (this.#passedOn > 0) this.#passedOn--
    else {
      this.#used--
      this.#returnIdle()
    }
  }

  /** A connection goes on at the lender, and its slot with it. `free` follows when it is closed here. */
  passOn(): void {
    this.#passedOn++
    this.#used--
    this.#held--
    this.#lender.giveBack(1)
  }

  #returnIdle(): void {
    const idle = this.#held - this.#used
    if (idle === 0) return
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
      // Without the other node nothing is answered. The connection waits for the next one, which is notified of it.
      if (granted === undefined && this.#used >= this.#held) this.#held++
    }
    return true
  }

  async #borrow(): Promise<number | undefined> {
    this.#asked ??= this.#ask()
    const { promise: timeout, resolve } = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => resolve(undefined), this.#timeoutMs)
    const granted = await Promise.race([this.#asked, timeout])
    clearTimeout(timer)
    this.#borrowing = undefined
    return granted
  }

  /** An answer counts however late it is: the lender has counted what it lent. */
  async #ask(): Promise<number | undefined> {
    const granted = await this.#lender.borrow(this.#portion, this.#held)
    this.#held += granted ?? 0
    this.#asked = undefined
    if (!this.#borrowing) this.#returnIdle()
    return granted
  }
}
