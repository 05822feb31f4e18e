/** The databases whose commits a secondary subscribes to. One that is deleted is forgotten: no commit will say that nobody wants it. */
import type { SecondarySignal } from './node-message.ts'

export class WatchedDatabases {
  readonly #names = new Set<string>()
  readonly #send: (signal: SecondarySignal) => void

  constructor(send: (signal: SecondarySignal) => void) {
    this.#send = send
  }

  /** For a primary that knows nothing of this node yet. */
  sendAll(): void {
    this.#send({ kind: 'watch', databases: [...this.#names] })
  }

  watch(database: string): void {
    if (this.#names.has(database)) return
    this.#names.add(database)
    this.#send({ kind: 'watch', databases: [database] })
  }

  unwatch(databases: readonly string[]): void {
    for (const name of databases) this.#names.delete(name)
    this.#send({ kind: 'unwatch', databases })
  }

  deleted(database: string): void {
    if (this.#names.has(database)) this.unwatch([database])
  }
}
