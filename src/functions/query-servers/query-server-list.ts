/** A list function in a query server. It gets row after row, and keeps its process until it ends. */
import type { ListOutput, ListRun } from '../functions.ts'
import type { TakenServer } from './query-server-pool.ts'
import { readListEnd, readListOutput } from './query-server-replies.ts'

export class QueryServerList implements ListRun {
  readonly begun: ListOutput
  readonly #taken: TakenServer
  readonly #signal: AbortSignal | undefined
  /** What it failed with after it had given something, which is taken first. */
  #failure: unknown

  constructor(taken: TakenServer, begun: ListOutput, signal: AbortSignal | undefined) {
    this.#taken = taken
    this.begun = begun
    this.#signal = signal
  }

  async rows(rows: readonly string[]): Promise<ListOutput> {
    if (this.#failure !== undefined) throw this.#failure
    const chunks: string[] = []
    let response: ListOutput['response']
    // One after the other: after the row that it ends with, the next would be a command that it does not know.
    for (const row of rows) {
      const output = await this.#told(`["list_row",${row}]`, readListOutput).catch((error: unknown) => {
        if (chunks.length === 0) throw error
        this.#failure = error
      })
      if (!output) return { chunks, response, isPaused: true, ended: false }
      for (const chunk of output.chunks) chunks.push(chunk)
      response = output.response ?? response
      if (output.ended) return { chunks, response, ended: true }
    }
    return { chunks, response, ended: false }
  }

  end(): Promise<ListOutput> {
    return this.#told('["list_end"]', readListEnd)
  }

  /** In the middle of its rows a process can do nothing else: it ends. */
  abandon(): void {
    this.#taken.abandon()
  }

  async #told(command: string, read: typeof readListOutput): Promise<ListOutput> {
    try {
      const output = await this.#taken.server.ask(command, read)
      if (output.ended) this.#taken.release()
      return output
    } catch (error) {
      this.abandon()
      this.#signal?.throwIfAborted()
      throw error
    }
  }
}
