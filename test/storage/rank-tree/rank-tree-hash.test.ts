import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { SaltedHash, TreeLayout } from '../../../src/storage/rank-tree/tree-layout.ts'

/** The published ones of HalfSipHash-1-3: vector n hashes the bytes 0 to n - 1 under the key 00 01 … 07. */
const VECTORS = [
  0x5814c896, 0xe7e864ca, 0xbc4b0e30, 0x01539939, 0x7e059ea6, 0x88e3d89b, 0xa0080b65, 0x9d38d9d6, 0x577999b1,
  0xc839caed, 0xe4fa32cf, 0x959246ee, 0x6b28096c, 0x66dd9cd6, 0x16658a7c, 0xd0257b04, 0x8b31d501, 0x2b1cd04b,
  0x06712339, 0x522aca67, 0x911bb605, 0x90a65f0e, 0xf826ef7b, 0x62512deb,
]

it('is HalfSipHash-1-3', () => {
  const hash = new SaltedHash(Buffer.of(0, 1, 2, 3, 4, 5, 6, 7))
  const bytes = Buffer.from(VECTORS.keys().toArray())
  expect(VECTORS.map((_, size) => hash.of(bytes.subarray(0, size)) >>> 0)).toEqual(VECTORS)
})

it('is the same of a part of a block', () => {
  const hash = new SaltedHash(Buffer.from('salt4321'))
  const block = randomBytes(64)
  for (let start = 0; start < 8; start++) {
    for (let end = start; end < block.length; end++) {
      expect(hash.of(block, start, end)).toBe(hash.of(block.subarray(start, end)))
    }
  }
})

it('makes one key in the fan-out a boundary, one of those in the fan-out one of the next level', () => {
  const layout = new TreeLayout({
    rowPrefix: Buffer.of(1),
    nodePrefix: Buffer.of(2),
    salt: Buffer.from('salt4321'),
    fanOut: 16,
  })
  const reached = [0, 0, 0]
  for (let i = 0; i < 100_000; i++) {
    const level = layout.levelOf(Buffer.from(`document ${i}`))
    for (let each = 0; each <= Math.min(level, 2); each++) reached[each]!++
  }
  expect(reached[1]! / reached[0]!).toBeCloseTo(1 / 16, 2)
  expect(reached[2]! / reached[1]!).toBeCloseTo(1 / 16, 1)
})

it('chooses other boundaries under another salt', () => {
  const keys = Array.from({ length: 1000 }, (_, i) => Buffer.from(`document ${i}`))
  const boundariesUnder = (salt: Buffer) => {
    const layout = new TreeLayout({ rowPrefix: Buffer.of(1), nodePrefix: Buffer.of(2), salt, fanOut: 2 })
    return keys.map((key) => Math.min(1, layout.levelOf(key))).join('')
  }
  expect(boundariesUnder(randomBytes(8))).not.toBe(boundariesUnder(randomBytes(8)))
})
