/** A regular expression as a tree. Only what decides whether a text contains a match is kept. */

/** Whether a code point belongs to it. */
export type CharacterSet = (codePoint: number) => boolean

export type PatternNode =
  | { readonly kind: 'character'; readonly set: CharacterSet; readonly literal: number | undefined }
  | { readonly kind: 'sequence'; readonly nodes: readonly PatternNode[] }
  | { readonly kind: 'choice'; readonly nodes: readonly PatternNode[] }
  | { readonly kind: 'repeat'; readonly node: PatternNode; readonly least: number; readonly most: number }
  | { readonly kind: 'assertion'; readonly assertion: Assertion }
  | { readonly kind: 'lookahead'; readonly node: PatternNode; readonly isNegative: boolean }

export type Assertion =
  | 'text start'
  | 'text end'
  /** At the end, or before a newline there. */
  | 'last line end'
  | 'line start'
  | 'line end'
  | 'word edge'
  | 'no word edge'
