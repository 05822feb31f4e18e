/** Parses lines of JSON from a stream; lines that arrive together are yielded together. */
import { GrowingBuffer } from '../../runtime/growing-buffer.ts'
import { TransientError } from './retries.ts'

/** Longer than the line of any change: a line without an end would fill the memory. */
const LONGEST_LINE_BYTES = 32 * 1024 * 1024
const LINE_FEED = 0x0a

export async function* jsonLines(pieces: AsyncIterable<Buffer>): AsyncGenerator<unknown[]> {
  // Joined: a list of very small pieces would take many times their bytes.
  const rest = new GrowingBuffer()
  for await (const piece of pieces) {
    const end = piece.lastIndexOf(LINE_FEED)
    if (end >= 0) {
      const lines = piece.subarray(0, end)
      const isWhole = rest.length === 0
      if (!isWhole) rest.add(lines)
      const text = (isWhole ? lines : await rest.take()).toString()
      const values = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [parsed(line)]))
      if (values.length > 0) yield values
    }
    rest.add(end < 0 ? piece : piece.subarray(end + 1))
    if (rest.length > LONGEST_LINE_BYTES) throw new Error('A line of a feed is too long.')
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch (cause) {
    throw new TransientError('A line of a feed is not JSON.', { cause })
  }
}
