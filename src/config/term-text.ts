/**
 * The subset of Erlang terms that CouchDB's settings use for lists: `[{httpd, "port"}, {cors, "*"}]`. Words, quoted
 * texts, `<<"binaries">>`, numbers, lists and tuples.
 */

export type Term =
  | { readonly kind: 'word' | 'text' | 'number'; readonly text: string; readonly items: readonly Term[] }
  | { readonly kind: 'list' | 'tuple'; readonly text: ''; readonly items: readonly Term[] }

/** Undefined when the text is not a term. */
export function parseTerm(text: string): Term | undefined {
  try {
    return new TermReader(text).whole()
  } catch (error) {
    if (error instanceof TermError) return undefined
    throw error
  }
}

/** The values of a list of pairs, by their names; what is no pair does not count. */
export function termPairs(text: string | undefined): Map<string, string> {
  const list = parseTerm(text ?? '[]')
  const pairs = (list?.kind === 'list' ? list.items : []).filter((item) => item.kind === 'tuple')
  return new Map(pairs.map(({ items: [name, value] }) => [name?.text ?? '', value?.text ?? '']))
}

class TermError extends Error {}

/** Deeper than anybody nests, and no deeper than the stack. */
const DEPTH_LIMIT = 50

const TOKEN =
  /\s*(?:(<<\s*"((?:[^"\\]|\\.)*)"\s*>>)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(-?\d+(?:\.\d+)?)|([\w@]+)|([[\]{},.]))/y

class TermReader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  whole(): Term {
    const term = this.#term(DEPTH_LIMIT)
    this.#skip('.')
    if (this.#text.slice(this.#at).trim() !== '') throw new TermError()
    return term
  }

  #term(depth: number): Term {
    if (depth === 0) throw new TermError()
    if (this.#skip('[')) return { kind: 'list', text: '', items: this.#items(']', depth) }
    if (this.#skip('{')) return { kind: 'tuple', text: '', items: this.#items('}', depth) }
    TOKEN.lastIndex = this.#at
    const [all, , binary, text, quotedWord, number, word] = TOKEN.exec(this.#text) ?? []
    if (all === undefined) throw new TermError()
    this.#at += all.length
    const quoted = binary ?? text
    if (quoted !== undefined) return { kind: 'text', text: unescaped(quoted), items: [] }
    if (number !== undefined) return { kind: 'number', text: number, items: [] }
    const plain = quotedWord === undefined ? word : unescaped(quotedWord)
    if (plain === undefined) throw new TermError()
    return { kind: 'word', text: plain, items: [] }
  }

  #items(end: ']' | '}', depth: number): Term[] {
    const items: Term[] = []
    if (this.#skip(end)) return items
    do items.push(this.#term(depth - 1))
    while (this.#skip(','))
    if (!this.#skip(end)) throw new TermError()
    return items
  }

  /** Goes over a sign if it comes next. */
  #skip(sign: string): boolean {
    const rest = /\S/g
    rest.lastIndex = this.#at
    const found = rest.exec(this.#text)
    if (found?.[0] !== sign) return false
    this.#at = found.index + 1
    return true
  }
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/gs, '$1')
}

/**
 * The words that name the authentication handlers of `httpd/authentication_handlers`, a list such as `{service_httpd_auth, cookie_authentication_handler}` or just
 * `cookie`: what stands before the first underscore of the function.
 */
export function listedHandlers(list: string): string[] {
  const functions = [...list.matchAll(/\{\s*\w+\s*,\s*(\w+)\s*\}|(\w+)/g)].map(([, full, short]) => full ?? short ?? '')
  return functions.map((name) => name.split('_', 1)[0] ?? '')
}
