/**
 * A query as the driver sends it. The driver's own ones copy what they are given and have each result described by the server
 * before they read it; here all results are rows of text, whatever their types.
 */
import pg from 'pg'
import type { Statement } from './statements.ts'

declare module 'pg' {
  interface Query {
    /** By which the driver knows the statement that is being prepared. */
    name: string | undefined
    /** Whether the session has the statement, or was sent it. */
    hasBeenParsed(connection: Connection): boolean
  }
  interface Connection {
    /** Names and texts of statements that were sent and not confirmed yet. */
    readonly submittedNamedStatements: Record<string, string>
  }
}

/** Columns are text or null. */
export type ResultRow = readonly (string | null)[]
export type Parameter = Buffer | string | number | null

interface Receiver {
  readonly resolve: (rows: ResultRow[]) => void
  readonly reject: (error: unknown) => void
}

export class SentQuery extends pg.Query {
  readonly #receiver: Receiver
  readonly #found: ResultRow[] = []

  /** Without parameters it is text that is not prepared, and may have several statements. */
  constructor({ name, text }: Partial<Statement>, parameters: readonly Parameter[] | undefined, receiver: Receiver) {
    super(text)
    this.#receiver = receiver
    if (!parameters) return
    this.name = name
    this.submit = (connection) => {
      if (!this.hasBeenParsed(connection)) {
        connection.parse({ name: name ?? '', text: text ?? '', types: [] }, true)
        if (name !== undefined) connection.submittedNamedStatements[name] = text ?? ''
      }
      const values = parameters.map((value) => (typeof value === 'number' ? String(value) : value))
      connection.bind({ statement: name ?? '', values }, true)
      connection.execute(null, true)
      connection.sync()
    }
  }

  handleRowDescription(): void {}

  handleDataRow({ fields }: { readonly fields: ResultRow }): void {
    this.#found.push(fields)
  }

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}

  handleReadyForQuery(): void {
    this.#receiver.resolve(this.#found)
  }

  handleError(error: unknown): void {
    this.#receiver.reject(error)
  }
}
