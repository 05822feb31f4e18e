/**
 * Who may have another slot. Most are for whoever comes first. The last quarter is for owners that have none yet, so that a
 * newcomer need not wait until somebody's endless loop has run into its time limit. Who ran into it lately is no newcomer,
 * and has fewer.
 */

export interface SlotsInUse {
  readonly ofAll: number
  readonly ofOwner: number
}

/** Slots of an owner whose functions brought processes down lately, and of all such owners. */
export interface SuspectSlots extends SlotsInUse {
  readonly ofSuspects: number
}

/** What is for whoever comes first, of four slots; of fewer it is all of them. */
const COMMON_SHARE = 3 / 4
const LEAST_SHARED_SLOTS = 4
/** Of one suspect, and of all of them. */
const SUSPECT_SHARE = 1 / 8
const SUSPECTS_SHARE = 1 / 2

export function mayTakeSlot(slots: number, { ofAll, ofOwner }: SlotsInUse): boolean {
  return ofAll < (ofOwner === 0 ? slots : commonSlots(slots))
}

export function mayTakeSlotAsSuspect(slots: number, { ofAll, ofOwner, ofSuspects }: SuspectSlots): boolean {
  if (ofOwner >= Math.ceil(SUSPECT_SHARE * slots) || ofSuspects >= Math.ceil(SUSPECTS_SHARE * slots)) return false
  return ofAll < commonSlots(slots)
}

function commonSlots(slots: number): number {
  return slots < LEAST_SHARED_SLOTS ? slots : Math.ceil(COMMON_SHARE * slots)
}
