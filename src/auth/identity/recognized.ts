/**
 * Whom the requests of a connection came from last. Clients say the same of themselves with every request: what it proved
 * holds until they say something else, or until settings or users change. A connection is only compared with itself, so
 * that the time this takes tells it nothing that it did not say.
 */
import type { UserRecord } from '../users/user-documents.ts'

/** One state of all that a proof rests on. */
export interface KnownState {
  readonly settings: object
  readonly updates: number
}

interface Recognition<Proof> {
  /** What the client said. */
  readonly header: string
  readonly record: UserRecord
  readonly proof: Proof
  readonly state: KnownState
}

export interface StateSource {
  /** The state of now; undefined where it is not known. */
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

  /** What was found for the same words on this connection. */
  find(connection: object | undefined, header: string): Recognition<Proof> | undefined {
    const last = connection && this.#byConnection.get(connection)
    return last?.header === header && this.#source.isState(last.state) ? last : undefined
  }

  /** To be given the state that there was before the proof was looked for. */
  note(
    connection: object | undefined,
    recognition: Omit<Recognition<Proof>, 'state'>,
    state: KnownState | undefined,
  ): void {
    if (connection && state) this.#byConnection.set(connection, { ...recognition, state })
  }
}
