/** Opens the peers of a replication, wherever they are. */
import { version } from '../../runtime/version.ts'
import { HttpClient } from '../client/http-client.ts'
import type { RetryPolicy } from '../client/retries.ts'
import type { ReplicationRequest } from '../replication-request.ts'
import type { ReplicationServices } from '../replication-services.ts'
import { tlsSettings } from '../replication-settings.ts'
import type { RemoteAddress } from './address.ts'
import { createLocal, openLocal } from './local-peer.ts'
import { LocalSource } from './local-source.ts'
import { LocalTarget } from './local-target.ts'
import type { SourcePeer, TargetPeer } from './peer.ts'
import { RemoteSource } from './remote-source.ts'
import { RemoteTarget } from './remote-target.ts'

/** The signal ends what the peer has under way. */
export async function openSource(
  request: ReplicationRequest,
  services: ReplicationServices,
  signal: AbortSignal,
): Promise<SourcePeer> {
  const { source, user, options } = request
  if (source.kind === 'local') {
    return new LocalSource(source, await openLocal(source, user, services), user, services, signal)
  }
  const retries = retriesOf(request)
  const client = clientFor(source, request, services)
  return new RemoteSource(source.shown, client, signal, { retries, timeoutMs: options.connectionTimeoutMs })
}

/** Creates the database where that is asked for. */
export async function openTarget(
  request: ReplicationRequest,
  services: ReplicationServices,
  signal: AbortSignal,
): Promise<TargetPeer> {
  const { target, user, createTarget, targetParameters } = request
  if (target.kind === 'local') {
    if (createTarget)
      await createLocal(target, user, services, { isPartitioned: targetParameters.partitioned === 'true' })
    return new LocalTarget(target, await openLocal(target, user, services), services)
  }
  const peer = new RemoteTarget(target.shown, clientFor(target, request, services), signal)
  if (createTarget) await peer.create(targetParameters)
  return peer
}

function clientFor(
  { url, credentials, headers }: RemoteAddress,
  request: ReplicationRequest,
  { agents, configuration }: ReplicationServices,
): HttpClient {
  const { proxy, options } = request
  const connections = {
    proxy,
    tls: tlsSettings(configuration),
    connections: options.httpConnections,
    timeoutMs: options.connectionTimeoutMs,
  }
  return new HttpClient({
    url,
    credentials,
    headers,
    agents: () => agents.for(connections),
    retries: retriesOf(request),
    version,
  })
}

function retriesOf({ options }: ReplicationRequest): RetryPolicy {
  return { retries: options.retriesPerRequest }
}
