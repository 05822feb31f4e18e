import { describe, expect, it } from 'vitest'
import { IncomingBody } from '../../src/wire/incoming-body.ts'

const source = { sendContinue: () => {}, pause: () => {}, resume: () => {}, cutOffSlow: () => {} }

describe('IncomingBody', () => {
  it('collects a body that comes in pieces of any size while it is read', async () => {
    const body = new IncomingBody(source)
    const collected = body.collect(Number.POSITIVE_INFINITY)
    const sent: Buffer[] = []
    let seed = 1
    for (let round = 0; round < 400; round++) {
      // Small ones are joined in blocks; those that fill a block exactly, and large ones, are passed on as they are.
      for (let count = 0; count < 1 + (round % 5); count++) {
        seed = (seed * 48_271) % 2_147_483_647
        const size = [1 + (seed % 700), 1024, 4096, 16_384, 65_536][seed % 5]!
        const piece = Buffer.allocUnsafeSlow(size).fill(round % 251)
        sent.push(Buffer.from(piece))
        body.push(piece)
      }
      await new Promise(setImmediate)
    }
    body.complete({})
    expect((await collected)?.equals(Buffer.concat(sent))).toBe(true)
  })

  it('frees the memory of large pieces as soon as they are copied', async () => {
    const body = new IncomingBody(source)
    const collected = body.collect(Number.POSITIVE_INFINITY)
    const piece = Buffer.allocUnsafeSlow(65_536).fill('x')
    body.push(piece)
    await new Promise(setImmediate)
    expect(piece.buffer.byteLength).toBe(0)
    body.complete({})
    expect((await collected)?.equals(Buffer.alloc(65_536, 'x'))).toBe(true)
  })
})
