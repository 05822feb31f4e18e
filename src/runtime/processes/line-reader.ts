/** Cuts what a program writes into lines, of which none is longer than it may be. */
import type { Readable } from 'node:stream'

export interface LineReading {
  readonly longestBytes: number
  onLine(line: string): void
  /** Called with the beginning of a line that is too long, and again with each such piece of it. */
  onPiece(piece: string): void
}

export function readLines(stream: Readable, { longestBytes, onLine, onPiece }: LineReading): void {
  let begun: Buffer[] = []
  let begunBytes = 0
  const taken = (): string => {
    const text = Buffer.concat(begun).toString()
    begun = []
    begunBytes = 0
    return text
  }
  const keep = (bytes: Buffer): void => {
    begun.push(bytes)
    begunBytes += bytes.length
  }
  stream.on('data', (chunk: Buffer) => {
    let from = 0
    for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, from)) {
      keep(chunk.subarray(from, end))
      from = end + 1
      if (begunBytes > longestBytes) onPiece(taken())
      else onLine(taken())
    }
    if (from < chunk.length) keep(chunk.subarray(from))
    if (begunBytes > longestBytes) onPiece(taken())
  })
  stream.on('end', () => {
    if (begunBytes > 0) onLine(taken())
  })
  // A pipe that breaks is a program that ends, which is noticed elsewhere.
  stream.on('error', () => {})
}

const LINE_END = 0x0a
