/** The counts and sequences of a database. They are written with each commit, so they always match its rows. */

export interface DatabaseState {
  readonly updateSequence: number
  /** Documents whose winner is live, and those whose winner is a tombstone. */
  readonly documentCount: number
  readonly deletedCount: number
  readonly purgeSequence: number
  /** The number that the next body gets. */
  readonly nextBody: number
  /** Bytes of the winners' bodies. */
  readonly bodyBytes: number
  readonly revisionLimit: number
  /** How many of the last purges compaction keeps a note of. */
  readonly purgeLimit: number
}

export const INITIAL_STATE: DatabaseState = {
  updateSequence: 0,
  documentCount: 0,
  deletedCount: 0,
  purgeSequence: 0,
  nextBody: 1,
  bodyBytes: 0,
  revisionLimit: 1000,
  purgeLimit: 1000,
}

export function encodeState(state: DatabaseState): Buffer {
  return Buffer.from(JSON.stringify(state))
}

export function decodeState(bytes: Buffer): DatabaseState {
  return { ...INITIAL_STATE, ...JSON.parse(bytes.toString()) }
}
