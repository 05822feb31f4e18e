/** Waits for something that gives no signal: looks every few milliseconds, until it is there or the test is over. */
import { setTimeout as pause } from 'node:timers/promises'

const INTERVAL_MS = 5

export async function until(isThere: () => boolean): Promise<void> {
  while (!isThere()) await pause(INTERVAL_MS)
}
