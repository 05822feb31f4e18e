import { describe, expect, it } from 'vitest'
import { listenTogether } from './many-listeners.ts'

describe('five thousand listeners of one database', () => {
  it('cost little while idle, and get each update', async () => {
    const { listenerBytes, idleConnectionBytes, updateMs } = await listenTogether(5_000, 20)
    console.table({ idleConnectionBytes, listenerBytes, slowestUpdateMs: Math.max(...updateMs) })
    expect(listenerBytes - idleConnectionBytes).toBeLessThan(20 * 1024)
  })
})
