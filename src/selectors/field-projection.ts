/**
 * Some fields of a document, cut out of its JSON text: nested objects are rebuilt around them, in the order of the list.
 * Fields that the document does not have are left out.
 */
import { endOfValue } from '../encoding/collation/plain-key-writer.ts'
import { type FieldPath, fieldPath } from './field-path.ts'
import { FieldPlaces } from './field-places.ts'
import { beginDocument } from './match-work.ts'
import { selectorError, shown } from './selector-error.ts'

export interface FieldProjection {
  /** As they were listed. */
  readonly names: readonly string[]
  /** The members of a document that are looked at. */
  readonly members: readonly string[]
  /** Of the object whose JSON text begins at `start`. */
  project(text: Buffer, start?: number): Buffer
  /** The same where some members do not lie in the text, but each in one of its own. */
  projectBeside(members: ReadonlyMap<string, Buffer>, text: Buffer, start: number): Buffer
}

/** Undefined for an empty list, which stands for all fields. Throws the error of the interface for what is no list of fields. */
export function fieldProjection(fields: unknown): FieldProjection | undefined {
  const names = fieldNames(fields)
  return names.length === 0 ? undefined : new Projection(names, fieldPath)
}

/** The same for documents whose members have the names of whole paths, as the columns of an index have. */
export function flatProjection(names: readonly string[]): FieldProjection {
  return new Projection(names, (name) => ({ name, segments: [name] }))
}

/** Each of them is looked for in each document. */
const MOST_FIELDS = 5000

function fieldNames(fields: unknown): string[] {
  if (!Array.isArray(fields)) {
    throw selectorError('invalid_fields', `Fields must be an array of strings, not: ${shown(fields)}`)
  }
  if (fields.length > MOST_FIELDS) {
    throw selectorError('invalid_fields', `Fields must be an array of ${MOST_FIELDS} strings at most.`)
  }
  return fields.map((field: unknown) => {
    if (typeof field === 'string') return field
    throw selectorError('invalid_field', `Invalid JSON for field spec: ${shown(field)}`)
  })
}

/** A member of the object that is made. */
interface OutputNode {
  /** The name as JSON writes it, with the colon behind it. */
  readonly label: Buffer
  /** The field that it is; undefined where it is only there for its members. */
  slot: number | undefined
  /** In the order of the list, by their names. */
  readonly children: Map<string, OutputNode>
}

function newNode(name: string): OutputNode {
  return { label: Buffer.from(`${JSON.stringify(name)}:`), slot: undefined, children: new Map() }
}

const NO_MEMBERS: ReadonlyMap<string, Buffer> = new Map()

class Projection implements FieldProjection {
  readonly names: readonly string[]
  readonly #places = new FieldPlaces()
  readonly #root = newNode('')

  /** `sourceOf` gives the position of a field's value. */
  constructor(names: readonly string[], sourceOf: (name: string) => FieldPath) {
    this.names = names
    for (const name of names) this.#add(fieldPath(name), sourceOf(name))
  }

  get members(): readonly string[] {
    return this.#places.topNames
  }

  project(text: Buffer, start = 0): Buffer {
    return this.projectBeside(NO_MEMBERS, text, start)
  }

  projectBeside(members: ReadonlyMap<string, Buffer>, text: Buffer, start: number): Buffer {
    beginDocument(text.length)
    this.#places.findBeside(members, text, start, () => true)
    const pieces: Buffer[] = []
    if (!this.#writeObject(this.#root, pieces)) pieces.push(EMPTY_OBJECT)
    return Buffer.concat(pieces)
  }

  #add({ segments }: FieldPath, source: FieldPath): void {
    let node = this.#root
    for (const segment of segments) {
      let child = node.children.get(segment)
      if (!child) {
        child = newNode(segment)
        node.children.set(segment, child)
      }
      node = child
    }
    node.slot = this.#places.add(source)
  }

  /** Whether there is anything to write. */
  #writeObject(node: OutputNode, pieces: Buffer[]): boolean {
    let separator = OPEN_OBJECT
    for (const child of node.children.values()) {
      const before = pieces.length
      pieces.push(separator, child.label)
      if (this.#writeNode(child, pieces)) separator = COMMA
      else pieces.length = before
    }
    if (separator === OPEN_OBJECT) return false
    pieces.push(CLOSE_OBJECT)
    return true
  }

  /** A value that is wanted as a whole has all that is wanted of it. */
  #writeNode(node: OutputNode, pieces: Buffer[]): boolean {
    const at = node.slot === undefined ? -1 : this.#places.places[node.slot]!
    if (at < 0) return this.#writeObject(node, pieces)
    const text = this.#places.texts[node.slot!]!
    pieces.push(text.subarray(at, endOfValue(text, at)))
    return true
  }
}

const EMPTY_OBJECT = Buffer.from('{}')
const OPEN_OBJECT = Buffer.from('{')
const CLOSE_OBJECT = Buffer.from('}')
const COMMA = Buffer.from(',')
