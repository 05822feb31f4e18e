/**
 * Settles members that come twice in one object: the last value counts, at the place of the first. Takes text that was
 * checked and minified, where equal names are equal bytes. Rare, so it favours plainness over speed.
 */
export function keepLastOfDuplicates(text: Buffer): Buffer {
  // One character a byte: nothing here looks inside a character, and the way back is exact.
  return Buffer.from(new Rewriter(text.toString('latin1')).value(), 'latin1')
}

class Rewriter {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  value(): string {
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

  #object(): string {
    // A Map keeps the place of a key that is set again.
    const members = new Map<string, string>()
    while (this.#text[this.#at++] !== '}') {
      if (this.#text[this.#at] === '}') continue
      const name = this.#string()
      this.#at++
      members.set(name, this.value())
    }
    return `{${Array.from(members, ([name, value]) => `${name}:${value}`).join(',')}}`
  }

  #array(): string {
    const elements: string[] = []
    while (this.#text[this.#at++] !== ']') {
      if (this.#text[this.#at] === ']') continue
      elements.push(this.value())
    }
    return `[${elements.join(',')}]`
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
