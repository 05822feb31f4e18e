/** How far an index or a database is, and whether that is far enough. */

export interface Reached {
  readonly updateSequence: number
  readonly purgeSequence: number
}

/** An index that has what was asked for, and no more than the database. */
export function hasReached(index: Reached, required: Reached, database: Reached): boolean {
  if (!isAtLeast(index, required)) return false
  return index.updateSequence === required.updateSequence || isAtLeast(database, index)
}

export function isSame(reached: Reached, required: Reached): boolean {
  return reached.updateSequence === required.updateSequence && reached.purgeSequence === required.purgeSequence
}

export function isAtLeast(reached: Reached, required: Reached): boolean {
  return reached.updateSequence >= required.updateSequence && reached.purgeSequence >= required.purgeSequence
}
