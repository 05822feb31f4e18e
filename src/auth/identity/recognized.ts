/**
 * Caches the last authentication of a connection. Clients send the same credentials with every request: the result is
 * valid until they send others, or until settings or users change. A connection is only compared with itself, so the
 * timing reveals nothing to it.
 */
import type { UserRecord } from '../users/user-documents.ts'

/** A version of everything that an authentication depends on. */
export interface KnownState {
  readonly settings: object
  readonly updates: number
}

interface Recognition<Proof> {
  /** The credentials that the client sent. */
  readonly header: string
  readonly record: UserRecord
  readonly proof: Proof
  readonly state: KnownState
}

export interface StateSource {
  /** The current state; undefined if it is not known. */
  state(): KnownState | undefined
  /** Whether nothing has changed since. */
  isState(state: KnownState): boolean
}

export class Recognized<Proof> {
  readonly #source: StateSource
  readonly #byConnection = new WeakMap<object, Recognition<Proof>>()

  constructor(source: StateSource) {
    this.#source = source
  }

  /** The result for the same credentials on this connection. */
  find(connection: object | undefined, header: string): Recognition<Proof> | undefined {
    const last = connection && this.#byConnection.get(connection)
    return last?.header === header && this.#source.isState(last.state) ? last : undefined
  }

  /** `state` must be from before the verification. */
  note(
    connection: object | undefined,
    recognition: Omit<Recognition<Proof>, 'state'>,
    state: KnownState | undefined,
  ): void {
    if (connection && state) this.#byConnection.set(connection, { ...recognition, state })
  }
}
