/** Opens the peers of a replication, wherever they are. */
import { version } from '../../runtime/version.ts'
import type { HttpAgents } from '../client/http-agents.ts'
import { HttpClient } from '../client/http-client.ts'
import type { RetryPolicy } from '../client/retries.ts'
import type { ReplicationRequest } from '../replication-request.ts'
import type { ReplicationServices } from '../replication-services.ts'
import { type TlsSettings, tlsSettings } from '../replication-settings.ts'
import type { RemoteAddress } from './address.ts'
import { createLocal, openLocal } from './local-peer.ts'
import { LocalSource } from './local-source.ts'
import { LocalTarget } from './local-target.ts'
import type { PeerOpener, SourcePeer, TargetPeer } from './peer.ts'
import { RemoteSource } from './remote/remote-source.ts'
import { RemoteTarget } from './remote/remote-target.ts'

/** The signal ends what the peer has under way. */
export async function openSource(
  request: ReplicationRequest,
  services: ReplicationServices,
  signal: AbortSignal,
): Promise<SourcePeer> {
  const { source, user } = request
  if (source.kind === 'local') {
    return new LocalSource(source, await openLocal(source, user, services), user, services, signal)
  }
  return openRemoteSource(source, request, remoteServices(services), signal)
}

export function openRemoteSource(
  source: RemoteAddress,
  request: ReplicationRequest,
  services: RemoteServices,
  signal: AbortSignal,
): RemoteSource {
  const { connectionTimeoutMs: timeoutMs } = request.options
  const client = clientFor(source, request, services)
  return new RemoteSource(source.shown, client, signal, { retries: retriesOf(request), timeoutMs })
}

export async function openRemoteTarget(
  target: RemoteAddress,
  request: ReplicationRequest,
  services: RemoteServices,
  signal: AbortSignal,
): Promise<RemoteTarget> {
  const peer = new RemoteTarget(target.shown, clientFor(target, request, services), signal)
  if (request.createTarget) await peer.create(request.targetParameters)
  return peer
}

/** What peers of other servers need. */
export interface RemoteServices {
  readonly agents: HttpAgents
  readonly tls: TlsSettings
}

function remoteServices({ agents, configuration }: ReplicationServices): RemoteServices {
  return { agents, tls: tlsSettings(configuration) }
}

/** Those of the server's own replications. */
export function peersOf(services: ReplicationServices): PeerOpener {
  return {
    source: (request, signal) => openSource(request, services, signal),
    target: (request, signal) => openTarget(request, services, signal),
  }
}

/** Creates the database where that is asked for. */
async function openTarget(
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
  return openRemoteTarget(target, request, remoteServices(services), signal)
}

function clientFor(
  { url, credentials, headers }: RemoteAddress,
  request: ReplicationRequest,
  { agents, tls }: RemoteServices,
): HttpClient {
  const { proxy, options } = request
  const connections = {
    proxy,
    tls,
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
