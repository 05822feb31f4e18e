/**
 * Finds the values of several fields in the JSON text of a document, in one pass that ends with the last of them. What is
 * found can be refused at once: the rest of the text is not read then. Who asks says before which document it is
 * (`beginDocument`): a search may cost no more than a document may.
 */
import type { FieldPath } from './field-path.ts'
import {
  endOfString,
  type FieldName,
  fieldName,
  hasEscape,
  isSameName,
  passOver,
  someElement,
  stringAt,
  typeAt,
} from './value-text.ts'

/** Where there is no value: the field is missing, or its path goes through a value that cannot hold it. */
export const MISSING = -1
const BAD_PATH = -2

/** One field or the way to one. */
interface PathNode {
  readonly name: FieldName
  /** The position in an array that the name stands for; -1 where it is not a number. */
  readonly index: number
  /** The field that ends here, by its number; -1 where none does. */
  slot: number
  readonly children: PathNode[]
  /** The same by their names. */
  readonly childOf: Map<string, PathNode>
  /** Nonzero at the marks of their names: most other names are skipped without making a string of them. */
  marks: Uint8Array
}

const COMMA = 0x2c
const CLOSE_OBJECT = 0x7d
const LONGEST_INDEX = 9

export class FieldPlaces {
  /** Of each field, in which text and where its value begins; `MISSING` and `BAD_PATH` where there is none. */
  readonly texts: Buffer[] = []
  readonly places: number[] = []
  readonly #root: PathNode = newNode('')
  #text: Buffer = Buffer.alloc(0)
  #accept: (slot: number) => boolean = () => true

  /** The number of a field, from 0 on; the same for the same path. */
  add({ segments }: FieldPath): number {
    let node = this.#root
    for (const segment of segments) {
      let child = node.childOf.get(segment)
      if (!child) {
        child = newNode(segment)
        if (node.children.length === 0) node.marks = new Uint8Array(MARKS)
        node.children.push(child)
        node.childOf.set(segment, child)
        node.marks[markOf(child.name.bytes, 0, child.name.bytes.length)] = 1
      }
      node = child
    }
    if (node.slot < 0) {
      node.slot = this.places.length
      this.places.push(MISSING)
      this.texts.push(this.#text)
    }
    return node.slot
  }

  /**
   * Finds all fields in the value that begins at `start`. `accept` is called with the number of each field as soon as it is
   * found; where it answers false the search ends, and so does this.
   */
  find(text: Buffer, start: number, accept: (slot: number) => boolean): boolean {
    this.#text = text
    this.#accept = accept
    this.places.fill(MISSING)
    return this.#visit(this.#root, start)
  }

  /** The names right below the value itself. */
  get topNames(): readonly string[] {
    return this.#root.children.map(({ name }) => name.unescaped)
  }

  /** The same where some members do not lie in the text, but each in one of its own. They are looked at first. */
  findBeside(
    members: ReadonlyMap<string, Buffer>,
    text: Buffer,
    start: number,
    accept: (slot: number) => boolean,
  ): boolean {
    this.#accept = accept
    this.places.fill(MISSING)
    let found = 0
    for (const child of this.#root.children) {
      const member = members.get(child.name.unescaped)
      if (!member) continue
      found++
      this.#text = member
      if (!this.#visit(child, 0)) return false
    }
    this.#text = text
    return this.#members(this.#root, start, found)
  }

  #visit(node: PathNode, at: number): boolean {
    if (node.slot >= 0) {
      this.places[node.slot] = at
      this.texts[node.slot] = this.#text
      if (!this.#accept(node.slot)) return false
    }
    if (node.children.length === 0) return true
    const type = typeAt(this.#text, at)
    if (type === 'object') return this.#members(node, at)
    if (type === 'array') return this.#elements(node, at)
    for (const child of node.children) this.#markBad(child)
    return true
  }

  #members(node: PathNode, start: number, found = 0): boolean {
    const text = this.#text
    let left = node.children.length - found
    let at = start + 1
    if (left === 0 || text[at] === CLOSE_OBJECT) return true
    for (;;) {
      const nameEnd = endOfString(text, at)
      const value = nameEnd + 2
      const child = namedChild(node, text, at, nameEnd)
      if (child) {
        if (!this.#visit(child, value)) return false
        if (--left === 0) return true
      }
      at = passOver(text, value)
      if (text[at] !== COMMA) return true
      at++
    }
  }

  #elements({ children }: PathNode, start: number): boolean {
    for (const child of children) this.#markBad(child)
    // A number may be written with zeros in front of it.
    const wanted = children.filter((child) => child.index >= 0).sort((a, b) => a.index - b.index)
    let next = 0
    let index = 0
    let isAccepted = true
    someElement(this.#text, start, (at) => {
      for (; wanted[next]?.index === index; next++) {
        const child = wanted[next]!
        this.#markMissing(child)
        if (this.#visit(child, at)) continue
        isAccepted = false
        return true
      }
      index++
      return next === wanted.length
    })
    return isAccepted
  }

  #markBad(node: PathNode): void {
    this.#mark(node, BAD_PATH)
  }

  #markMissing(node: PathNode): void {
    this.#mark(node, MISSING)
  }

  #mark(node: PathNode, place: number): void {
    if (node.slot >= 0) this.places[node.slot] = place
    for (const child of node.children) this.#mark(child, place)
  }
}

/** Up to this number of names are compared one by one, in place. */
const FEW_CHILDREN = 8

/** The name begins at a quote and ends before one. Few are written with escapes. */
function namedChild(node: PathNode, text: Buffer, quoteAt: number, end: number): PathNode | undefined {
  const { children, childOf, marks } = node
  const start = quoteAt + 1
  if (children.length > FEW_CHILDREN) {
    const mayBeOne = marks[markOf(text, start, end)] !== 0 || hasEscape(text, start, end)
    return mayBeOne ? childOf.get(stringAt(text, quoteAt)) : undefined
  }
  for (let i = 0; i < children.length; i++) {
    const child = children[i]!
    if (isSameName(text, start, end, child.name)) return child
  }
  if (!hasEscape(text, start, end)) return undefined
  const name = stringAt(text, quoteAt)
  return children.find((child) => child.name.unescaped === name)
}

const MARKS = 512
const NO_MARKS = new Uint8Array(0)

/** By the length, the first and the last byte. */
function markOf(text: Buffer, start: number, end: number): number {
  if (end === start) return 0
  return ((end - start) * 131 + text[start]! * 31 + text[end - 1]!) % MARKS
}

function newNode(name: string): PathNode {
  const isIndex = /^\d+$/.test(name) && name.length <= LONGEST_INDEX
  return {
    name: fieldName(name),
    index: isIndex ? Number(name) : -1,
    slot: -1,
    children: [],
    childOf: new Map(),
    marks: NO_MARKS,
  }
}
