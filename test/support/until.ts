/** Waits for something that gives no signal: looks every few milliseconds, until it is there or took too long. */
import { setTimeout as pause } from 'node:timers/promises'

const INTERVAL_MS = 5
/** A little less than a test has, so that it says what it waited for. */
const LIMIT_MS = 110_000

export async function until(isThere: () => boolean | Promise<boolean>, limitMs = LIMIT_MS): Promise<void> {
  const deadline = performance.now() + limitMs
  while (!(await isThere())) {
    if (performance.now() > deadline) throw new Error(`It did not come to pass within ${limitMs} ms.`)
    await pause(INTERVAL_MS)
  }
}
