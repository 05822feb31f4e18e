import { expect, it } from 'vitest'
import { ReusedBuffers } from '../../src/runtime/reused-buffers.ts'

it('joins pieces in buffers that were given back', () => {
  const buffers = new ReusedBuffers({ largestBytes: 1000, most: 1 })
  const pieces = ['a', 'b'].map((letter) => Buffer.from(letter.repeat(300)))
  const first = buffers.joined(pieces)
  const second = buffers.joined(pieces)
  expect(first).toEqual(Buffer.concat(pieces))
  expect(second.buffer).not.toBe(first.buffer)
  buffers.giveBack(first)
  buffers.giveBack(second)
  const third = buffers.joined(pieces.slice(1))
  expect(third.buffer).toBe(first.buffer)
  expect(third).toEqual(pieces[1])
  expect(buffers.joined(pieces).buffer).not.toBe(second.buffer)
})

it('keeps none of another size', () => {
  const buffers = new ReusedBuffers({ largestBytes: 1000, most: 4 })
  for (const size of [10, 2000]) {
    const whole = buffers.joined([Buffer.alloc(size, 1)])
    expect(whole).toEqual(Buffer.alloc(size, 1))
    buffers.giveBack(whole)
  }
  expect(buffers.joined([Buffer.alloc(900)])).toHaveLength(900)
})
