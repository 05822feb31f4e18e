/**
 * The id of a replication: the same for equal requests, and over restarts. Logs are kept under its base. Credentials are
 * no part of it, so that a changed password keeps the checkpoints; nor are tuning options.
 */
import { createHash } from 'node:crypto'
import type { Address } from './peers/address.ts'
import type { ReplicationRequest } from './replication-request.ts'

export interface ReplicationId {
  /** The name of the logs. */
  readonly base: string
  /** `+continuous`, `+create_target` */
  readonly extension: string
  readonly full: string
}

/** `filterSource` is the text of the filter function, where there is one. */
export function replicationId(
  request: ReplicationRequest,
  serverUuid: string,
  filterSource: string | undefined,
): ReplicationId {
  const { source, target, user, continuous, createTarget } = request
  const parts = [serverUuid, endpoint(source, user), endpoint(target, user), ...filterParts(request, filterSource)]
  const base = createHash('md5').update(JSON.stringify(parts)).digest('hex')
  const extension = `${continuous ? '+continuous' : ''}${createTarget ? '+create_target' : ''}`
  return { base, extension, full: base + extension }
}

function endpoint(address: Address, { name, roles }: ReplicationRequest['user']): unknown {
  if (address.kind === 'local') return ['local', address.name, name, [...roles].sort()]
  const { url, credentials, headers } = address
  const who = credentials && (credentials.kind === 'oauth' ? credentials.token : credentials.name)
  const shown = Object.entries(headers).filter(([header]) => !SECRET_HEADERS.has(header))
  return ['remote', url, who ?? null, shown.sort(([a], [b]) => (a < b ? -1 : 1))]
}

const SECRET_HEADERS = new Set(['accept', 'authorization', 'cookie', 'proxy-authorization', 'user-agent'])

function filterParts({ filter, winningRevisionsOnly }: ReplicationRequest, source: string | undefined): unknown[] {
  const style = winningRevisionsOnly ? ['winning_revs_only'] : []
  if (!filter) return style
  if (filter.kind === 'function') return [source?.trim() ?? null, sorted(filter.parameters), ...style]
  return [filter.kind === 'documents' ? [...filter.ids].sort() : filter.selector, ...style]
}

function sorted(parameters: Readonly<Record<string, string>>): unknown {
  return Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1))
}
