import { describe, expect, it } from 'vitest'
import { ByteArena } from '../../../src/encoding/bytes/byte-arena.ts'

describe('ByteArena', () => {
  it('gives out buffers that do not overlap, small and large', () => {
    const arena = new ByteArena(1_000_000)
    const sizes = Array.from({ length: 300 }, (_, i) => (i % 50 === 49 ? 100_000 : 1 + i * 7))
    const buffers = sizes.map((size, i) => arena.allocate(size).fill(i % 256))
    for (const [i, buffer] of buffers.entries()) {
      expect(buffer.length).toBe(sizes[i])
      expect(buffer.every((byte) => byte === i % 256)).toBe(true)
    }
  })

  it('makes no block that is larger than what is expected', () => {
    expect(new ByteArena(1000).allocate(10).buffer.byteLength).toBe(1000)
    expect(new ByteArena(5).allocate(10).buffer.byteLength).toBe(10)
  })

  it('leaves nothing of its buffers when it is freed', () => {
    const arena = new ByteArena()
    const buffers = [arena.allocate(10), arena.allocate(1_000_000), arena.allocate(300_000)]
    arena.free()
    expect(buffers.map(({ length }) => length)).toEqual([0, 0, 0])
    arena.free()
    expect(arena.allocate(10)).toHaveLength(10)
  })
})
