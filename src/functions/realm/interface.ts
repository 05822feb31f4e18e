/** What goes in and out of an isolate: known to the process outside and to the realm inside. */

/** What the isolate can ask of the process around it: no more than this. */
export interface RealmHost {
  /** Tells whether there is room for more lines. */
  log(line: string): boolean
  /** Hands over what a list function gave, and waits for a page of rows: JSON, or nothing when there are no more. */
  exchange(output: string): string | undefined
}

export const LIMITS = {
  /** A batch that takes longer is interrupted between two inputs. */
  sliceMs: 100,
  /** Of what a function emits for one document. */
  emittedCharacters: 64 * 1024 * 1024,
  /** Of what a list sends before it is taken away. */
  sentCharacters: 256 * 1024,
  /** Of what a show sends altogether. */
  shownCharacters: 64 * 1024 * 1024,
}

/** Characters that JSON text never has. The first three are the kinds of what a call gives. */
export const MARKS = {
  error: '\u0005',
  done: '\u0006',
  more: '\u0007',
  endOfResult: '\u0002',
}

/** What a call came to. */
export type Outcome = readonly [mark: string, text: string]

/** In arrays, of which the isolates have copies: text that is handed over alone is kept outside of their heaps, too long. */
export type RealmCall = (call: readonly [operation: string, input: string]) => Outcome
