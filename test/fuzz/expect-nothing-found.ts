/** Says what a fuzzer found, in a form that can be tried again. */
import { expect } from 'vitest'
import type { FuzzReport } from './fuzzer.ts'

/** What caches and the compiler may take beyond the first part of a run. */
const GROWTH_LIMIT_BYTES = 32 * 1024 * 1024

export function expectNothingFound({ seed, requests, findings, grownBytes, byStatus }: FuzzReport): void {
  const told = findings.map(
    ({ what, round, bytes }) => `SETTLE_SEED=${seed} SETTLE_FUZZ_ROUND=${round}: ${what}\n${bytes}`,
  )
  expect(told.join('\n\n')).toBe('')
  expect(grownBytes, `memory with SETTLE_SEED=${seed}`).toBeLessThan(GROWTH_LIMIT_BYTES)
  // The requests get somewhere: a fuzzer whose requests are all refused at the door tests nothing.
  for (const status of [200, 201, 400, 404, 409])
    expect(byStatus.get(status), `${status}`).toBeGreaterThan(requests / 2_000)
}
