import { describe, expect, it } from 'vitest'
import { listenTogether } from './many-listeners.ts'

describe('five hundred listeners of one database', () => {
  it('cost little while idle, and get each update', async () => {
    const { listenerBytes, idleConnectionBytes, updateMs } = await listenTogether(500, 5)
    expect(listenerBytes - idleConnectionBytes).toBeLessThan(20 * 1024)
    expect(updateMs).toHaveLength(5)
  })
})
