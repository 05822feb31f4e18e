/**
 * A document of the replicator database: the replication that it defines, and the members in which the server writes
 * its state. The rest of its text stays as it was sent.
 */
import { memberTexts } from '../../auth/users/user-edits.ts'
import type { AttachmentRecord } from '../../database/layout/stored-body.ts'
import type { UserContext } from '../../database/user-context.ts'
import type { RevisionId } from '../../document/ids.ts'
import { spliceObject } from '../../encoding/json/json-text-splice.ts'
import { isObject } from '../../encoding/json/json-value.ts'

export interface ReplicationDocument {
  readonly id: string
  readonly revision: RevisionId
  readonly body: Buffer
  /** They stay when the server writes a state. */
  readonly attachments: readonly AttachmentRecord[]
}

/** What the server writes into a document. A member that is null is removed, one that is left out stays. */
export interface StateMembers {
  readonly _replication_id?: string | null
  readonly _replication_state?: ReplicationState | null
  readonly _replication_state_reason?: string | null
  readonly _replication_stats?: object | null
}

export type ReplicationState = 'triggered' | 'completed' | 'error'

export type Members = Readonly<Record<string, unknown>>

const STATE_TIME = '_replication_state_time'
const STATE_PREFIX = '_replication_'

export function membersOf({ body }: ReplicationDocument): Members {
  return JSON.parse(body.toString())
}

export function stateOf({ _replication_state: state }: Members): ReplicationState | undefined {
  return state === 'triggered' || state === 'completed' || state === 'error' ? state : undefined
}

/** The definition of the replication as a text, to detect changes. */
export function requestText({ body }: ReplicationDocument): string {
  const wanted = memberTexts(body, (name) => !name.startsWith(STATE_PREFIX) && name !== 'owner')
  return spliceObject(wanted).toString()
}

/** The user context of the replication; anonymous unless the document says otherwise. */
export function userOf({ user_ctx: context }: Members, { isOpen }: { readonly isOpen: boolean }): UserContext {
  const { name, roles } = isObject(context) ? context : {}
  return {
    name: typeof name === 'string' ? name : null,
    roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
    // While there is no administrator everybody may do everything.
    ...(isOpen && { isUnbound: true as const }),
  }
}

/** The text of the document with new state members; undefined if nothing changes. */
export function withState(document: ReplicationDocument, state: StateMembers, nowMs: number): Buffer | undefined {
  const before = membersOf(document)
  const given: [string, unknown][] = Object.entries(state)
  const changed = given.filter(([name, value]) => JSON.stringify(before[name] ?? null) !== JSON.stringify(value))
  if (changed.length === 0) return undefined
  const changedState = changed.find(([name]) => name === '_replication_state')
  if (changedState) changed.push([STATE_TIME, changedState[1] === null ? null : stateTime(nowMs)])
  const names = new Set(changed.map(([name]) => name))
  const kept = memberTexts(document.body, (name) => !names.has(name))
  const written = changed.filter(([, value]) => value !== null)
  return spliceObject([...kept, ...written.map(([name, value]) => `"${name}":${JSON.stringify(value)}`)])
}

/** RFC 3339 with the offset of this machine: `2013-12-13T18:48:00+01:00`. */
function stateTime(nowMs: number): string {
  const offsetMinutes = -new Date(nowMs).getTimezoneOffset()
  const local = new Date(nowMs + offsetMinutes * 60_000).toISOString().slice(0, 19)
  const digits = (value: number) => String(Math.abs(value)).padStart(2, '0')
  const hours = Math.trunc(offsetMinutes / 60)
  return `${local}${offsetMinutes < 0 ? '-' : '+'}${digits(hours)}:${digits(offsetMinutes % 60)}`
}
