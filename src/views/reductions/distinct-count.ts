/**
 * `_approx_count_distinct`: how many different keys there are. Up to some hundred are counted exactly, by their hashes;
 * more are estimated by the longest runs of zero bits among the hashes that share their first bits (HyperLogLog), with an
 * error of two per cent or so.
 *
 *   0, hashes of 64 bits in their order; or 1, a byte a register
 */
import { SaltedHash } from '../../storage/rank-tree/tree-layout.ts'
import type { NativeReduction } from './reduction.ts'

const HASHES = 0
const REGISTERS = 1
const HASH_BYTES = 8
const EXACT_LIMIT = 256
const REGISTER_BITS = 11
const REGISTER_COUNT = 1 << REGISTER_BITS

/** Colliding keys would only spoil the estimate of their own view. */
const indexHash = new SaltedHash(Buffer.from('distinct'))
const runHash = new SaltedHash(Buffer.from('estimate'))

export const distinctCount: NativeReduction = {
  reduce: (rows) => encodeHashes(rows.map(({ key }) => hashOf(key))),
  rereduce: (reductions) => {
    if (reductions.some((reduction) => reduction[0] === REGISTERS)) return mergeRegisters(reductions)
    return encodeHashes(reductions.flatMap(hashesOf))
  },
  result: (reduction) => String(reduction[0] === HASHES ? (reduction.length - 1) / HASH_BYTES : estimate(reduction)),
}

function hashOf(key: Buffer): string {
  const hash = Buffer.allocUnsafe(HASH_BYTES)
  hash.writeInt32BE(indexHash.of(key), 0)
  hash.writeInt32BE(runHash.of(key), 4)
  return hash.toString('latin1')
}

function hashesOf(reduction: Buffer): string[] {
  const hashes: string[] = []
  for (let at = 1; at < reduction.length; at += HASH_BYTES)
    hashes.push(reduction.toString('latin1', at, at + HASH_BYTES))
  return hashes
}

function encodeHashes(hashes: readonly string[]): Buffer {
  const different = [...new Set(hashes)].sort()
  const list = Buffer.concat([Buffer.of(HASHES), Buffer.from(different.join(''), 'latin1')])
  return different.length <= EXACT_LIMIT ? list : mergeRegisters([list])
}

function mergeRegisters(reductions: readonly Buffer[]): Buffer {
  const merged = Buffer.alloc(1 + REGISTER_COUNT)
  merged[0] = REGISTERS
  for (const reduction of reductions) {
    if (reduction[0] === REGISTERS) {
      for (let at = 1; at < merged.length; at++) merged[at] = Math.max(merged[at]!, reduction[at]!)
    } else {
      for (let at = 1; at < reduction.length; at += HASH_BYTES) {
        const register = 1 + (reduction.readUInt32BE(at) >>> (32 - REGISTER_BITS))
        merged[register] = Math.max(merged[register]!, 1 + Math.clz32(reduction.readInt32BE(at + 4)))
      }
    }
  }
  return merged
}

function estimate(registers: Buffer): number {
  let inverse = 0
  let empty = 0
  for (let at = 1; at < registers.length; at++) {
    inverse += 2 ** -registers[at]!
    if (registers[at] === 0) empty++
  }
  const bias = 0.7213 / (1 + 1.079 / REGISTER_COUNT)
  const raw = (bias * REGISTER_COUNT * REGISTER_COUNT) / inverse
  // While registers are empty, their number is the better estimate.
  const isFew = raw <= 2.5 * REGISTER_COUNT && empty > 0
  return Math.round(isFew ? REGISTER_COUNT * Math.log(REGISTER_COUNT / empty) : raw)
}
