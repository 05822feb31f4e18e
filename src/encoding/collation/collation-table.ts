/**
 * The root collation table in memory: which collation elements a code point or a contraction has, how characters decompose
 * and combine. Read once, on the first text that is not plain ASCII; nothing in it depends on the host's Unicode data.
 */
import { brotliDecompressSync } from 'node:zlib'
import { compressedTable } from './collation-data.ts'

/** Code points that continue one that came before, each leading to longer contractions. */
export interface ContractionNode {
  /** Where the elements of the sequence up to here are, 0 if it is no contraction itself. */
  elements: number
  next: Map<number, ContractionNode>
}

const codePointCount = 0x11_0000

/** The order of ideographs is stored by pages of so many bits of the code point. */
export const pageShift = 11
export const derivedLength = 3
const unassignedLength = 4

const inexactFlag = 0b01
const joinsPreviousFlag = 0b10
const classShift = 2

/** The attributes of an element: the numbers of its secondary and tertiary weight and the length of its primary code. */
export function attributesOf(secondary: number, tertiary: number, primaryLength: number): number {
  return (secondary << 8) | (tertiary << 3) | primaryLength
}

export function secondaryOf(attributes: number): number {
  return attributes >>> 8
}

export function tertiaryOf(attributes: number): number {
  return (attributes >>> 3) & 0x1f
}

export function primaryLengthOf(attributes: number): number {
  return attributes & 0x7
}

export class CollationTable {
  /**
   * Runs of collation elements: a count, then for each element the code of its primary weight and its attributes. A run
   * is named by where it starts. `addRun` may replace the array: read the property again after it.
   */
  runs = new Uint32Array(0x2_0000)
  readonly #runStarts = new Uint32Array(codePointCount)
  readonly #flags = new Uint8Array(codePointCount)
  readonly #contractions = new Map<number, ContractionNode>()
  readonly #decompositions = new Map<number, Int32Array>()
  /** The primary codes of ideographs, by code point. */
  readonly #derivedCodes = new Uint32Array(codePointCount)
  readonly #unassignedLead: number
  /** Position 0 of the runs means "no run". */
  #runsEnd = 1

  constructor() {
    const reader = new ColumnReader(brotliDecompressSync(Buffer.from(compressedTable, 'base64')))
    const [firstDerivedCode, unassignedLead] = reader.column()
    this.#unassignedLead = unassignedLead!
    this.#readDerived(reader, firstDerivedCode!)
    this.#readCombiningClasses(reader)
    this.#readInexact(reader)
    this.#readSingles(reader)
    this.#readContractions(reader)
    this.#readDecompositions(reader)
  }

  /** The run of this code point, 0 where none was stored or added. */
  run(codePoint: number): number {
    return this.#runStarts[codePoint]!
  }

  /** Keeps the run of a code point whose elements follow from a rule or from its decomposition. */
  addRun(codePoint: number, elements: readonly number[]): number {
    const start = this.#runsEnd
    const runs = this.#runsWithRoomFor(1 + elements.length)
    runs[start] = elements.length / 2
    runs.set(elements, start + 1)
    this.#runsEnd += 1 + elements.length
    this.#runStarts[codePoint] = start
    return start
  }

  /** The one element of a code point that the table does not list: an ideograph, or one that is not assigned. */
  derivedElement(codePoint: number): [code: number, attributes: number] {
    const code = this.#derivedCodes[codePoint]!
    if (code !== 0) return [code, attributesOf(0, 0, derivedLength)]
    return [this.#unassignedLead * 0x100_0000 + codePoint, attributesOf(0, 0, unassignedLength)]
  }

  contractionsFrom(codePoint: number): ContractionNode | undefined {
    return this.#contractions.get(codePoint)
  }

  /** The canonical decomposition of a code point that has one, Hangul excepted. */
  decomposition(codePoint: number): Int32Array | undefined {
    return this.#decompositions.get(codePoint)
  }

  /** The rank of the canonical combining class, 0 for a starter. */
  combiningClass(codePoint: number): number {
    return this.#flags[codePoint]! >>> classShift
  }

  /** Whether the weights of this code point may depend on what stands before it. */
  joinsPrevious(codePoint: number): boolean {
    return (this.#flags[codePoint]! & joinsPreviousFlag) !== 0
  }

  /** Whether no other code point, and no sequence of exact ones, has the same weights. */
  isExact(codePoint: number): boolean {
    return (this.#flags[codePoint]! & inexactFlag) === 0
  }

  #readDerived(reader: ColumnReader, firstCode: number): void {
    const pages = reader.column()
    const skipped = reader.signed()
    const extents = reader.column()
    const codes = this.#derivedCodes
    const pageEnds = new Uint32Array(codePointCount >>> pageShift)
    for (let page = 0; page < pageEnds.length; page++) pageEnds[page] = page << pageShift
    let code = firstCode
    for (let i = 0; i < pages.length; i++) {
      const page = pages[i]!
      let codePoint = pageEnds[page]! + skipped[i]!
      const last = codePoint + extents[i]!
      while (codePoint <= last) codes[codePoint++] = code++
      pageEnds[page] = codePoint
    }
  }

  #readCombiningClasses(reader: ColumnReader): void {
    const marks = reader.ascending()
    const classes = reader.column()
    for (let i = 0; i < marks.length; i++) this.#flags[marks[i]!]! |= (classes[i]! << classShift) | joinsPreviousFlag
  }

  #readInexact(reader: ColumnReader): void {
    const firsts = reader.ascending()
    const extents = reader.column()
    for (let i = 0; i < firsts.length; i++) {
      const last = firsts[i]! + extents[i]!
      for (let codePoint = firsts[i]!; codePoint <= last; codePoint++) this.#flags[codePoint]! |= inexactFlag
    }
  }

  #readSingles(reader: ColumnReader): void {
    const codePoints = reader.ascending()
    const starts = this.#readRuns(reader)
    for (let i = 0; i < codePoints.length; i++) this.#runStarts[codePoints[i]!] = starts[i]!
  }

  #readContractions(reader: ColumnReader): void {
    const lengths = reader.column()
    const codePoints = reader.differences()
    const starts = this.#readRuns(reader)
    let at = 0
    for (let i = 0; i < lengths.length; i++) {
      this.#addContraction(codePoints.subarray(at, at + lengths[i]!), starts[i]!)
      at += lengths[i]!
    }
  }

  /** What can continue a contraction is weighed together with what precedes it. */
  #addContraction(codePoints: Int32Array, elements: number): void {
    let node = nodeAt(this.#contractions, codePoints[0]!)
    for (let i = 1; i < codePoints.length; i++) {
      const codePoint = codePoints[i]!
      this.#flags[codePoint]! |= joinsPreviousFlag
      node = nodeAt(node.next, codePoint)
    }
    node.elements = elements
  }

  /** Comes last: a composed character joins what precedes it if the first of its parts does. */
  #readDecompositions(reader: ColumnReader): void {
    const codePoints = reader.ascending()
    const lengths = reader.column()
    const forms = reader.differences()
    let at = 0
    for (let i = 0; i < codePoints.length; i++) {
      const codePoint = codePoints[i]!
      if (this.joinsPrevious(forms[at]!)) this.#flags[codePoint]! |= joinsPreviousFlag
      this.#decompositions.set(codePoint, forms.subarray(at, at + lengths[i]!))
      at += lengths[i]!
    }
  }

  #readRuns(reader: ColumnReader): Uint32Array {
    const counts = reader.column()
    const codes = reader.differences()
    const attributes = reader.column()
    const runs = this.#runsWithRoomFor(counts.length + 2 * codes.length)
    const starts = new Uint32Array(counts.length)
    let at = this.#runsEnd
    let element = 0
    for (let i = 0; i < counts.length; i++) {
      starts[i] = at
      runs[at++] = counts[i]!
      for (const end = element + counts[i]!; element < end; element++) {
        runs[at++] = codes[element]!
        runs[at++] = attributes[element]!
      }
    }
    this.#runsEnd = at
    return starts
  }

  #runsWithRoomFor(words: number): Uint32Array {
    const needed = this.#runsEnd + words
    if (needed > this.runs.length) {
      const grown = new Uint32Array(2 * needed)
      grown.set(this.runs)
      this.runs = grown
    }
    return this.runs
  }
}

function nodeAt(level: Map<number, ContractionNode>, codePoint: number): ContractionNode {
  const node = level.get(codePoint) ?? { elements: 0, next: new Map() }
  level.set(codePoint, node)
  return node
}

/** Reads the columns of variable-length numbers that the generator wrote. */
class ColumnReader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  column(): Int32Array {
    return this.#numbers(this.#numbers(1)[0]!)
  }

  ascending(): Int32Array {
    return summed(this.column())
  }

  signed(): Int32Array {
    const values = this.column()
    for (let i = 0; i < values.length; i++) values[i] = (values[i]! >>> 1) ^ -(values[i]! & 1)
    return values
  }

  differences(): Int32Array {
    return summed(this.signed())
  }

  /** One loop over local variables: it runs only once, mostly before the compiler has seen it. */
  #numbers(count: number): Int32Array {
    const bytes = this.#bytes
    const values = new Int32Array(count)
    let at = this.#at
    for (let i = 0; i < count; i++) {
      let byte = bytes[at++]!
      let value = byte & 0x7f
      for (let shift = 7; byte >= 0x80; shift += 7) {
        byte = bytes[at++]!
        value |= (byte & 0x7f) << shift
      }
      values[i] = value
    }
    this.#at = at
    return values
  }
}

function summed(values: Int32Array): Int32Array {
  let sum = 0
  for (let i = 0; i < values.length; i++) {
    sum += values[i]!
    values[i] = sum
  }
  return values
}
