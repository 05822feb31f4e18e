/**
 * Patterns of names, each with a value. In a pattern `*` is any text, also none; every other character is itself. Of several
 * patterns that match a name the most specific one counts.
 */

const WILDCARD = '*'

/** Names of the server's own databases begin so. Only a pattern that is the very name matches one. */
const SYSTEM_MARK = '_'

const PATTERN = /^[a-z0-9_$()+/*-]+$/
const LIMIT_CHARACTERS = 1_000

/** Whether a pattern has only characters that names of databases have, and `*`. */
export function isNamePattern(pattern: string): boolean {
  return pattern.length <= LIMIT_CHARACTERS && PATTERN.test(pattern)
}

export class NamePatterns<T> {
  readonly #exact = new Map<string, T>()
  /** The most specific one first. */
  readonly #patterns: readonly { readonly pieces: readonly string[]; readonly value: T }[]

  constructor(values: Iterable<readonly [pattern: string, value: T]>) {
    const patterns: { readonly pattern: string; readonly pieces: readonly string[]; readonly value: T }[] = []
    for (const [pattern, value] of values) {
      if (pattern.includes(WILDCARD)) patterns.push({ pattern, pieces: pattern.split(WILDCARD), value })
      else this.#exact.set(pattern, value)
    }
    this.#patterns = patterns.sort(
      (a, b) =>
        startOf(b).length - startOf(a).length ||
        characters(b) - characters(a) ||
        Buffer.compare(Buffer.from(a.pattern), Buffer.from(b.pattern)),
    )
  }

  /** The value of the name itself; else of the pattern with the longest text before its first `*`, then with the most characters. */
  find(name: string): T | undefined {
    const exact = this.#exact.get(name)
    if (exact !== undefined || name.startsWith(SYSTEM_MARK)) return exact
    return this.#patterns.find(({ pieces }) => matches(name, pieces))?.value
  }
}

function startOf({ pieces }: { readonly pieces: readonly string[] }): string {
  return pieces[0] ?? ''
}

function characters({ pieces }: { readonly pieces: readonly string[] }): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0)
}

/** Whether a name begins with the first piece, ends with the last one, and has the others between them in this order. */
function matches(name: string, pieces: readonly string[]): boolean {
  const first = pieces[0] ?? ''
  const last = pieces.at(-1) ?? ''
  const end = name.length - last.length
  if (end < first.length || !name.startsWith(first) || !name.endsWith(last)) return false
  let from = first.length
  for (const piece of pieces.slice(1, -1)) {
    // The first place is as good as any later one.
    const at = name.indexOf(piece, from)
    if (at < 0 || at + piece.length > end) return false
    from = at + piece.length
  }
  return true
}
