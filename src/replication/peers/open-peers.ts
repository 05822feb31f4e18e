/** Opens the peers of a replication, wherever they are. */
import { RequestError } from '../../document/request-error.ts'
import type { ReplicationRequest } from '../replication-request.ts'
import type { ReplicationServices } from '../replication-services.ts'
import { createLocal, openLocal } from './local-peer.ts'
import { LocalSource } from './local-source.ts'
import { LocalTarget } from './local-target.ts'
import type { SourcePeer, TargetPeer } from './peer.ts'

/** The signal ends what the peer has under way. */
export async function openSource(
  { source, user }: ReplicationRequest,
  services: ReplicationServices,
  signal: AbortSignal,
): Promise<SourcePeer> {
  if (source.kind === 'remote') throw remoteUnsupported()
  return new LocalSource(source.shown, await openLocal(source, user, services), user, services, signal)
}

export async function openTarget(
  { target, user, createTarget }: ReplicationRequest,
  services: ReplicationServices,
  _signal: AbortSignal,
): Promise<TargetPeer> {
  if (target.kind === 'remote') throw remoteUnsupported()
  if (createTarget) await createLocal(target, user, services)
  return new LocalTarget(target.shown, await openLocal(target, user, services), services)
}

function remoteUnsupported(): RequestError {
  return new RequestError(501, 'not_implemented', 'Replication with other servers is not supported yet.')
}
