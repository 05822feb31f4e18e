/** Waiting for clients that take their time. */
import type { Writable } from 'node:stream'

/** A client that takes nothing for so long is given up: what its reply is read from cannot be held for ever. */
const STALLED_LIMIT_MS = 300_000

/** Resolves when the client has taken what was written, or is gone. */
export function taken(output: Writable): Promise<void> {
  return new Promise((resolve) => {
    const impatience = setTimeout(() => output.destroy(), STALLED_LIMIT_MS)
    const done = () => {
      clearTimeout(impatience)
      output.off('drain', done)
      output.off('close', done)
      resolve()
    }
    output.on('drain', done)
    output.on('close', done)
  })
}
