/**
 * What a database is given when it is created and keeps for ever: its uuid, the salt of its rank tree, whether it is
 * partitioned, and when it was created.
 */
import { randomBytes } from 'node:crypto'
import { randomUuid } from '../runtime/uuids.ts'
import { SALT_BYTES } from '../storage/rank-tree/rank-tree.ts'
import type { Put } from '../storage/store.ts'
import { encodeState, IDENTITY_KEY, INITIAL_STATE, STATE_KEY } from './layout/keys.ts'

export interface DatabaseIdentity {
  readonly uuid: string
  /** Decides which ids are boundaries in the rank tree. */
  readonly salt: Buffer
  readonly isPartitioned: boolean
  /** In microseconds since 1970; 0 where it is not known. */
  readonly createdUs: number
}

/** What a database is created with. */
export interface DatabaseOptions {
  /** Whether the ids of its documents are `partition:id`. */
  readonly isPartitioned?: boolean
}

/** The JSON form of the stored row. */
interface StoredIdentity {
  readonly uuid: string
  readonly salt: string
  readonly partitioned?: boolean
  readonly created?: number
}

/** The rows of a new database. */
export function firstRows({ isPartitioned = false }: DatabaseOptions, nowUs: number): Put[] {
  const identity: StoredIdentity = {
    uuid: randomUuid(),
    salt: randomBytes(SALT_BYTES).toString('hex'),
    ...(isPartitioned && { partitioned: true }),
    created: nowUs,
  }
  return [
    [IDENTITY_KEY, Buffer.from(JSON.stringify(identity))],
    [STATE_KEY, encodeState(INITIAL_STATE)],
  ]
}

export function decodeIdentity(stored: Buffer): DatabaseIdentity {
  const { uuid, salt, partitioned = false, created = 0 }: StoredIdentity = JSON.parse(stored.toString())
  return { uuid, salt: Buffer.from(salt, 'hex'), isPartitioned: partitioned, createdUs: created }
}
