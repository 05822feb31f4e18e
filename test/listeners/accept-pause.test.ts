import { expect, it } from 'vitest'
import { AcceptPause } from '../../src/http/listeners/accept-pause.ts'

function pausesOf(timesMs: readonly number[]): number {
  let pauses = 0
  const pause = new AcceptPause(() => pauses++)
  for (const timeMs of timesMs) pause.accepted(timeMs)
  return pauses
}

it('lets other nodes accept after each connection of a burst but the first', () => {
  expect(pausesOf([0])).toBe(0)
  expect(pausesOf([0, 0.1, 0.2, 0.3])).toBe(3)
})

it('does not slow down connections that come one by one', () => {
  expect(pausesOf([0, 10, 20, 30, 40])).toBe(0)
})

it('sleeps a bounded part of the time, however many connections come', () => {
  const oneSecond = Array.from({ length: 10_000 }, (_, i) => i / 10)
  expect(pausesOf(oneSecond)).toBeGreaterThan(64)
  expect(pausesOf(oneSecond)).toBeLessThanOrEqual(64 + 500)
})
