import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GrowingBuffer } from '../../src/runtime/growing-buffer.ts'

const MEGABYTE = 1024 * 1024

function usedMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

describe('bytes that are put together', () => {
  it('are those that were added, and take the memory that was reported', async () => {
    const pieces = fc.array(fc.uint8Array({ maxLength: 60_000 }), { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(pieces, fc.option(fc.nat(400_000), { nil: undefined }), async (parts, expectedBytes) => {
        const buffer = new GrowingBuffer(expectedBytes)
        let toldBytes = 0
        for (const part of parts) {
          toldBytes += buffer.growthFor(part.length)
          buffer.add(Buffer.from(part))
        }
        const whole = Buffer.concat(parts)
        expect(buffer.length).toBe(whole.length)
        expect(toldBytes).toBeGreaterThanOrEqual(whole.length)
        expect(toldBytes).toBeLessThanOrEqual(whole.length * 2 + 16 * 1024)
        if (whole.length === expectedBytes) expect(toldBytes).toBe(whole.length)
        expect((await buffer.take()).equals(whole)).toBe(true)
        expect(buffer.length).toBe(0)
      }),
    )
  })

  it('take no long turn, however many they are', async () => {
    const buffer = new GrowingBuffer()
    const piece = Buffer.alloc(64 * 1024, 'x')
    let longestMs = 0
    let before = usedMs()
    const measure = () => {
      longestMs = Math.max(longestMs, usedMs() - before)
      before = usedMs()
    }
    for (let size = 0; size < 200 * MEGABYTE; size += piece.length) {
      buffer.add(piece)
      measure()
    }
    const timer = setInterval(measure, 1)
    const whole = await buffer.take()
    measure()
    clearInterval(timer)
    expect(whole.length).toBe(200 * MEGABYTE)
    // A memory of its own can be transferred without a copy.
    expect(whole.buffer.byteLength).toBe(whole.length)
    expect(longestMs).toBeLessThan(40)
  })
})
