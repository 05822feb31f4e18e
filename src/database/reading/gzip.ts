/** Compresses and decompresses streams at the pace of their reader. When the reader stops, so does the work. */
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'

export function gzipped(source: AsyncIterable<Buffer>, level: number): AsyncGenerator<Buffer> {
  return through(source, createGzip({ level }))
}

export function gunzipped(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  return through(source, createGunzip())
}

async function* through(source: AsyncIterable<Buffer>, stream: Duplex): AsyncGenerator<Buffer> {
  // What goes wrong on the way in comes out of the other end.
  const feeding = pipeline(source, stream).catch(() => {})
  try {
    for await (const piece of stream) yield piece
  } finally {
    stream.destroy()
    await feeding
  }
}
