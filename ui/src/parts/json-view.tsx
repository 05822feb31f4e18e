/** A JSON text in colours, with the digits it has. */
import { useMemo } from 'react'
import { formattedTokens } from '../json/json-text.ts'

/** Longer texts are shown without colours: each piece is an element. */
const COLOURED_CHARACTERS = 60_000

export function JsonView({ text }: { text: string }) {
  const pieces = useMemo(() => (text.length > COLOURED_CHARACTERS ? undefined : [...formattedTokens(text)]), [text])
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: who scrolls by keyboard must be able to get here.
    <pre className="code" tabIndex={0}>
      {pieces === undefined
        ? text
        : pieces.map(({ kind, text: piece }, index) =>
            kind === 'mark' ? (
              piece
            ) : (
              // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no other name.
              <span key={index} className={`json-${kind}`}>
                {piece}
              </span>
            ),
          )}
    </pre>
  )
}
