/** The number of the last commit, kept in the store itself under a key that no caller can have. */
import assert from 'node:assert/strict'
import type { LmdbEnvironment } from '../lmdb/lmdb-environment.ts'

/** Keys that begin with a zero byte are the engine's own. */
export const VERSION_KEY = Buffer.of(0)

export function versionBytes(version: number): Buffer {
  assert(Number.isSafeInteger(version))
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigUInt64BE(BigInt(version))
  return bytes
}

/** A store that was never written to is of version 0. */
export function versionOf(bytes: Buffer | undefined): number {
  return bytes ? Number(bytes.readBigUInt64BE()) : 0
}

export function readVersion(environment: LmdbEnvironment): number {
  return environment.read((transaction) => versionOf(environment.get(transaction, VERSION_KEY)))
}
