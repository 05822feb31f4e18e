/**
 * Leases as rows of a table. One heartbeat of a server renews all of its leases. Only the clock of PostgreSQL decides when they
 * expire. A server that could not send a heartbeat for the time of a lease treats all of its leases as lost, without asking.
 */

import type { LeaseProof, WorkLease, WorkLeases } from '../leases/work-leases.ts'
import { LeaseLostError } from '../storage-error.ts'
import type { Connection, Parameter, ResultRow } from './connection.ts'
import { STATEMENTS, type Statement } from './statements.ts'

export interface LeaseServices {
  /** The uuid of the tables. */
  readonly engine: string
  /** This server. */
  readonly holder: Buffer
  readonly durationMs: number
  run(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]>
  /** For what need not be as fast as heartbeats. */
  read(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]>
}

export class PostgresLeases implements WorkLeases {
  readonly durationMs: number
  readonly #services: LeaseServices
  readonly #held = new Map<string, HeldLease>()
  /** Names of leases that are being requested. */
  readonly #taking = new Set<string>()
  /** When the last heartbeat that got an answer was sent. */
  #heardMs = performance.now()
  /** Times after which other servers may have taken this one for gone, and how many of them were made up for. */
  #lapses = 0
  #madeUpFor = 0

  constructor(services: LeaseServices) {
    this.#services = services
    this.durationMs = services.durationMs
  }

  /**
   * Whether other servers may take this one for gone, or did: they do not wait for it, so it may have missed commits. By the
   * time of this process, which counts from before the heartbeat: never later than they do.
   */
  get hasLapsed(): boolean {
    return this.#madeUpFor < this.#lapses || this.#isLate
  }

  get lapses(): number {
    return this.#lapses
  }

  /** What was missed until the end of so many lapses is made up for. */
  madeUpFor(lapses: number): void {
    this.#madeUpFor = Math.max(this.#madeUpFor, lapses)
  }

  async take(name: string): Promise<WorkLease | undefined> {
    if (this.#held.has(name) || this.#taking.has(name)) return undefined
    this.#taking.add(name)
    try {
      const { engine, holder, durationMs } = this.#services
      const [row] = await this.#services.run(STATEMENTS.takeLease, [name, holder, durationMs])
      if (!row) return undefined
      const lease = new HeldLease({ name, fence: Number(row[0]), engine }, () => this.#release(lease))
      this.#held.set(name, lease)
      return lease
    } finally {
      this.#taking.delete(name)
    }
  }

  async isHeld(name: string): Promise<boolean> {
    if (this.#held.has(name)) return true
    return (await this.#services.read(STATEMENTS.findLease, [name, this.durationMs])).length > 0
  }

  /** Sends a heartbeat, and finds out which leases other servers took. Throws where the engine cannot be reached. */
  async beat(): Promise<void> {
    const beganMs = performance.now()
    const { holder } = this.#services
    await this.#services.run(STATEMENTS.beat, [holder])
    if (this.#isLate) this.#lapses++
    this.#heardMs = beganMs
    if (this.#held.size === 0) return
    const held = [...this.#held.values()]
    const rows = await this.#services.run(STATEMENTS.heldLeases, [holder])
    const fences = new Set(rows.map(([fence]) => Number(fence)))
    for (const lease of held) if (!fences.has(lease.proof.fence)) this.#lose(lease)
  }

  /** To be called regularly: leases that were not renewed in time are lost. */
  expire(): void {
    if (!this.#isLate) return
    for (const lease of [...this.#held.values()]) this.#lose(lease)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#held.values()].map((lease) => lease.release()))
  }

  get #isLate(): boolean {
    return performance.now() - this.#heardMs >= this.durationMs
  }

  #lose(lease: HeldLease): void {
    if (this.#held.get(lease.proof.name) === lease) this.#held.delete(lease.proof.name)
    lease.lost()
  }

  async #release(lease: HeldLease): Promise<void> {
    if (this.#held.get(lease.proof.name) !== lease) return
    this.#held.delete(lease.proof.name)
    const { name, fence } = lease.proof
    // If it fails, the lease expires with this server's heartbeats, or is taken again here.
    await this.#services.run(STATEMENTS.releaseLease, [name, fence]).catch(() => {})
  }
}

class HeldLease implements WorkLease {
  readonly proof: LeaseProof
  readonly #ending = new AbortController()
  readonly #onRelease: () => Promise<void>

  constructor(proof: LeaseProof, onRelease: () => Promise<void>) {
    this.proof = proof
    this.#onRelease = onRelease
  }

  get signal(): AbortSignal {
    return this.#ending.signal
  }

  lost(): void {
    this.#ending.abort(new LeaseLostError(this.proof.name))
  }

  async release(): Promise<void> {
    if (this.#ending.signal.aborted) return
    this.#ending.abort(new LeaseLostError(this.proof.name))
    await this.#onRelease()
  }
}

/** Within a transaction: throws where the lease is lost, and keeps others from taking it until the end. */
export async function checkLease(connection: Connection, { name, fence }: LeaseProof): Promise<void> {
  const rows = await connection.run(STATEMENTS.checkLease, [name, fence])
  if (rows.length === 0) throw new LeaseLostError(name)
}
