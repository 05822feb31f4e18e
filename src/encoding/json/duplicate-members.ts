/**
 * Settles members that come twice in one object: the last value counts, at the place of the first. Takes text that was
 * checked and minified, where equal names are equal bytes. Rare, so it favours plainness over speed; and yet it is
 * linear: texts are joined once, at the end, however deep they are nested.
 */
export function keepLastOfDuplicates(text: Buffer): Buffer {
  // One character a byte: nothing here looks inside a character, and the way back is exact.
  const parts: string[] = []
  collect(new Rewriter(text.toString('latin1')).value(), parts)
  return Buffer.from(parts.join(''), 'latin1')
}

/** A part of the text as it was, or several of these in order. */
type Piece = string | readonly Piece[]

function collect(piece: Piece, parts: string[]): void {
  if (typeof piece === 'string') parts.push(piece)
  else for (const each of piece) collect(each, parts)
}

class Rewriter {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  value(): Piece {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object()
      case '[':
        return this.#array()
      case '"':
        return this.#string()
      default:
        return this.#scalar()
    }
  }

  #object(): Piece {
    // A Map keeps the place of a key that is set again.
    const members = new Map<string, Piece>()
    while (this.#text[this.#at++] !== '}') {
      if (this.#text[this.#at] === '}') continue
      const name = this.#string()
      this.#at++
      members.set(name, this.value())
    }
    const pieces: Piece[] = ['{']
    for (const [name, value] of members) pieces.push(pieces.length === 1 ? name : `,${name}`, ':', value)
    pieces.push('}')
    return pieces
  }

  #array(): Piece {
    const pieces: Piece[] = ['[']
    while (this.#text[this.#at++] !== ']') {
      if (this.#text[this.#at] === ']') continue
      if (pieces.length > 1) pieces.push(',')
      pieces.push(this.value())
    }
    pieces.push(']')
    return pieces
  }

  #string(): string {
    const start = this.#at++
    while (this.#text[this.#at] !== '"') this.#at += this.#text[this.#at] === '\\' ? 2 : 1
    return this.#text.slice(start, ++this.#at)
  }

  #scalar(): string {
    const start = this.#at
    while (this.#at < this.#text.length && !',]}'.includes(this.#text[this.#at]!)) this.#at++
    return this.#text.slice(start, this.#at)
  }
}
