/** Errors of the realm itself. User code cannot make one. */
export interface Failure extends Error {
  /** The identifier that the client gets. */
  readonly id: string
  readonly reason: unknown
}

export interface Failures {
  /** An error that carries the identifier and the reason of the reply. */
  failure(id: string, reason: unknown): Failure
  isFailure(thrown: unknown): thrown is Failure
  /** What was thrown, in a line for people; never throws itself. */
  describe(thrown: unknown): string
}

export function realmFailures(): Failures {
  const { stringify } = JSON
  const text = String

  class RealmFailure extends Error implements Failure {
    // Nothing that user code makes passes for one.
    readonly #id: string
    readonly reason: unknown

    constructor(id: string, reason: unknown) {
      super(typeof reason === 'string' ? reason : stringify(reason))
      this.#id = id
      this.name = id
      this.reason = reason
    }

    get id(): string {
      return this.#id
    }

    static is(thrown: unknown): thrown is RealmFailure {
      return typeof thrown === 'object' && thrown !== null && #id in thrown
    }
  }

  return {
    failure: (id, reason) => new RealmFailure(id, reason),
    isFailure: (thrown) => RealmFailure.is(thrown),
    describe(thrown) {
      try {
        if (thrown instanceof Error) return `${thrown.name}: ${thrown.message}`
        if (typeof thrown === 'object' && thrown !== null) return stringify(thrown) ?? text(thrown)
        return text(thrown)
      } catch {
        return 'something that cannot be shown'
      }
    },
  }
}
