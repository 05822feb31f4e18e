/**
 * The interface of user functions for the rest of the server. Sources and documents go in as JSON text, results come back as
 * JSON text. Failures of a function are `RequestError`s with the identifiers of the HTTP interface. A cancelled call rejects
 * with the reason of its signal.
 */

import type { Collation } from '../encoding/collation/collation-key.ts'
import type { Run } from '../runtime/fair-semaphore.ts'

export interface Functions {
  /** Rows of many documents, in one round trip. */
  map(program: MapProgram, documents: readonly Uint8Array[], run: Run): Promise<MappedBatch>
  /** One result a group, as JSON text. All groups go in one round trip. */
  reduce(program: ReduceProgram, groups: readonly (readonly ReduceInput[])[], run: Run): Promise<string[]>
  rereduce(program: ReduceProgram, groups: readonly (readonly string[])[], run: Run): Promise<string[]>
  /** Whether each document passes. */
  filter(
    design: DesignProgram,
    name: string,
    documents: readonly string[],
    request: string,
    run: Run,
  ): Promise<boolean[]>
  /** Whether the map function emits anything for each document. */
  filterByView(design: DesignProgram, view: string, documents: readonly string[], run: Run): Promise<boolean[]>
  /** One verdict a write; `undefined` lets it pass. All writes go in one round trip. */
  validate(design: DesignProgram, writes: readonly ValidatedWrite[], run: Run): Promise<(Error | undefined)[]>
  show(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<FunctionResponse>
  update(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<UpdateResult>
  list(design: DesignProgram, name: string, call: ListCall, run: Run): Promise<ListRun>
  /**
   * Functions of this language will be called soon: starts a process in the background, unless there is one. It ends
   * again if no function is called.
   */
  prepare(language: string): void
  /** Ends all processes; calls under way fail. */
  close(): Promise<void>
}

/** A design document whose functions are called. */
export interface DesignProgram {
  /** `_design/name` */
  readonly id: string
  /** Tells this text from every other one, such as database uuid and revision: what was compiled is kept by it. */
  readonly key: string
  readonly language: string
  /** The whole document as JSON. */
  readonly text: string
}

/** The map functions of one index. */
export interface MapProgram {
  /** Tells these sources from all others. */
  readonly key: string
  readonly language: string
  /** `views.lib` as JSON text. */
  readonly library: string | undefined
  readonly maps: readonly { readonly source: string; readonly collation: Collation }[]
}

export interface ReduceProgram {
  readonly language: string
  readonly source: string
}

export interface ReduceInput {
  readonly key: string
  readonly id: string
  readonly value: string
}

/** The rows that a batch of documents made: in the order of documents, of map functions, and as they were emitted. */
export interface MappedBatch {
  readonly rows: number
  /** All bytes of all rows. */
  readonly block: Buffer
  /** `MAPPED_FIELDS` numbers a row; see there. */
  readonly fields: Uint32Array
}

/**
 * Of row i, from `fields[i * MAPPED_FIELDS]` on: number of its document in the batch, number of its map function, 1 when
 * its sort key is exact and 0 when not, and then offsets into the block: its sort key begins, its key's JSON text begins
 * (the sort key ends), its value's JSON text begins, that ends.
 */
export const MAPPED_FIELDS = 7

/** Documents are JSON texts; null where there is none. */
export interface DocumentCall {
  readonly document: string | null
  readonly request: string
}

export interface ValidatedWrite {
  readonly document: string
  readonly previous: string | null
  readonly user: string
  readonly security: string
}

/** The object that a function answered with, parsed and checked for its type only. */
export interface FunctionResponse {
  readonly [member: string]: unknown
}

export interface UpdateResult {
  /** The document to be written, as JSON text; null when there is none. */
  readonly document: string | null
  readonly response: FunctionResponse
}

export interface ListCall {
  readonly head: string
  readonly request: string
}

/** A list function that waits for rows. It occupies a place until it ends or is ended. */
export interface ListRun {
  /** What it gave before it wanted a row. */
  readonly begun: ListOutput
  /** Hands rows over, each as JSON text; the function may take only some of them. */
  rows(rows: readonly string[]): Promise<ListOutput>
  /** No row is left. */
  end(): Promise<ListOutput>
  /** Gives the function up. May be called at any time. */
  abandon(): void
}

export interface ListOutput {
  readonly chunks: readonly string[]
  /** What it asked the reply to begin with since the last output, if anything. */
  readonly response: FunctionResponse | undefined
  /** Whether it has rows left, and only wants its chunks to be taken: `rows([])` resumes it. */
  readonly isPaused?: boolean
  /** Whether it wants no more rows. */
  readonly ended: boolean
}
