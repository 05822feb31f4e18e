/** The settings of the `replicator` section: defaults of each replication, and how connections are made. */
import type { Configuration } from '../config/configuration.ts'

/** What a request may set for its own replication. */
export interface ReplicationOptions {
  /** Batches that are under way at the same time; those that only wait for the disk of a local target do not count. */
  readonly workerProcesses: number
  /** Changes in a batch. */
  readonly workerBatchSize: number
  /** Connections to one host. */
  readonly httpConnections: number
  /** How long a remote peer may be silent. */
  readonly connectionTimeoutMs: number
  readonly retriesPerRequest: number
  readonly checkpointIntervalMs: number
  readonly useCheckpoints: boolean
}

export interface TlsSettings {
  readonly certFile: string | undefined
  readonly keyFile: string | undefined
  readonly password: string | undefined
  readonly trustedCertificatesFile: string | undefined
  readonly verifyCertificates: boolean
}

export function defaultOptions(configuration: Configuration): ReplicationOptions {
  const integer = (key: string) => configuration.integer(SECTION, key)
  return {
    workerProcesses: integer('worker_processes'),
    workerBatchSize: integer('worker_batch_size'),
    httpConnections: integer('http_connections'),
    connectionTimeoutMs: integer('connection_timeout'),
    retriesPerRequest: integer('retries_per_request'),
    checkpointIntervalMs: integer('checkpoint_interval'),
    useCheckpoints: configuration.text(SECTION, 'use_checkpoints') !== 'false',
  }
}

export function tlsSettings(configuration: Configuration): TlsSettings {
  return {
    certFile: configuration.get(SECTION, 'cert_file'),
    keyFile: configuration.get(SECTION, 'key_file'),
    password: configuration.get(SECTION, 'password'),
    trustedCertificatesFile: configuration.get(SECTION, 'ssl_trusted_certificates_file'),
    verifyCertificates: configuration.isOn(SECTION, 'verify_ssl_certificates'),
  }
}

const SECTION = 'replicator'
