/** What goes in and out of an isolate. */

/** What the isolate can ask of the process around it: no more than this. */
export interface RealmHost {
  /** Tells whether there is room for more lines. */
  log(line: string): boolean
  /** Hands over what a list function gave, and waits for a page of rows: JSON, or nothing when there are no more. */
  exchange(output: string): string | undefined
}

export interface RealmLimits {
  /** A batch that takes longer is interrupted between two inputs. */
  readonly sliceMs: number
  /** Of what a function emits for one document. */
  readonly emittedCharacters: number
  /** Of what a list sends before it is taken away. */
  readonly sentCharacters: number
  /** Of what a show sends altogether. */
  readonly shownCharacters: number
}

export interface RealmMarks {
  /** The kinds of what a call gives. */
  readonly done: string
  readonly more: string
  readonly error: string
  /** A character that JSON text never has. */
  readonly endOfResult: string
}

/** What a call came to. */
export type Outcome = readonly [mark: string, text: string]

/** In arrays, of which the isolates have copies: text that is handed over alone is kept outside of their heaps, too long. */
export type RealmCall = (call: readonly [operation: string, input: string]) => Outcome
