/** The whole interface by several clients at a time, and what each kind of planted bug does to their histories. */
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../support/client.ts'
import { checkInterface } from './interface-model.ts'
import { linearize } from './linearizable.ts'
import type { Tampering } from './model-client.ts'

const client = serverOfFile()

describe('clients at the same time', () => {
  it('see one order of edits, however they read; feeds send every change once', async () => {
    await checkInterface(client(), { numRuns: 12, clients: 4, steps: 10 })
  }, 300_000)

  it('see the same as a client alone', async () => {
    await checkInterface(client(), { numRuns: 6, clients: 1, steps: 30 })
  }, 300_000)

  const plants: [string, () => Tampering][] = [
    ['a stale reading', staleReadings],
    ['an edit on an old revision that is not refused', () => ({ refused: (id) => `9-${id.charCodeAt(0)}` })],
    ['a change that the feed does not tell', lostChange],
    [
      'a change that the feed tells with a wrong sequence',
      () => ({ change: (change) => ({ ...change, seq: change.seq >> 1 }) }),
    ],
    ['a wrong count', () => ({ count: (count) => count + 1 })],
    // Rights that were given are those of before.
    ['a security object that is forgotten', () => ({ security: () => 0 })],
  ]
  it.each(plants)(
    'find %s',
    async (_, tampering) => {
      await expect(checkInterface(client(), { numRuns: 60, clients: 3, steps: 12, tampering })).rejects.toThrow()
    },
    300_000,
  )
})

/** Each reading returns what the one before it saw. */
function staleReadings(): Tampering {
  const before = new Map<string, string | undefined>()
  return {
    reading: (seen, id) => {
      const told = before.get(id)
      before.set(id, seen)
      return told
    },
  }
}

/** The fourth one. */
function lostChange(): Tampering {
  let count = 0
  return { change: (change) => (++count === 4 ? undefined : change) }
}

describe('an order of operations', () => {
  const register = (client: number, startedAt: number, endedAt: number, does: { wrote?: number; read?: number }) => ({
    client,
    startedAt,
    endedAt,
    told: '',
    apply: (state: number) => does.wrote ?? (does.read === state ? state : undefined),
  })

  it('is found where operations overlap', () => {
    const history = [register(0, 0, 10, { wrote: 1 }), register(1, 1, 2, { read: 1 }), register(2, 3, 4, { read: 1 })]
    expect(linearize(history, 0, String)).toBe(1)
  })

  it('is not found where a reading goes back', () => {
    const history = [register(0, 0, 10, { wrote: 1 }), register(1, 1, 2, { read: 1 }), register(2, 3, 4, { read: 0 })]
    expect(linearize(history, 0, String)).toBeUndefined()
  })
})
