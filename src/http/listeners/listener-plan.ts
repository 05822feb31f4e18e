/** Which addresses the configuration wants, and how. */
import { readFileSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import type { TlsOptions } from 'node:tls'
import type { Configuration, SettingChange } from '../../config/configuration.ts'
import { termPairs } from '../../config/term-text.ts'
import { type ConnectionLimits, DEFAULT_LIMITS } from '../../wire/connection-limits.ts'
import type { ListenerPlan } from './listener.ts'
import type { ListenerPlans } from './listeners.ts'

/** Connections that the system accepts for us while we are busy; it cuts this to its own limit (`net.core.somaxconn`). */
const BACKLOG = 4096

export interface PlanOptions {
  /** What paths of certificates are relative to. */
  readonly folder: string
  /** However many the configuration allows. */
  readonly connectionLimit: number
}

export function listenerPlans(configuration: Configuration, { folder, connectionLimit }: PlanOptions): ListenerPlans {
  const options = termPairs(configuration.get('httpd', 'server_options'))
  const plain: ListenerPlan = {
    host: configuration.text('httpd', 'bind_address'),
    port: configuration.integer('httpd', 'port'),
    backlog: numberOr(options.get('backlog'), BACKLOG),
    noDelay: termPairs(configuration.get('httpd', 'socket_options')).get('nodelay') !== 'false',
    connectionLimit: Math.min(connectionLimit, wantedConnections(configuration)),
  }
  return { plain, secure: securePlan(configuration, folder, plain) }
}

/** How many connections the configuration allows. */
export function wantedConnections(configuration: Configuration): number {
  const options = termPairs(configuration.get('httpd', 'server_options'))
  return numberOr(options.get('max'), configuration.integer('httpd', 'max_connections'))
}

/** The timeouts of connections; read each time they are used. */
export function connectionLimits(configuration: Configuration): ConnectionLimits {
  return {
    ...DEFAULT_LIMITS,
    bodyMs: configuration.integer('httpd', 'body_timeout'),
    bodyBytesPerSecond: configuration.integer('httpd', 'min_body_rate'),
  }
}

/** Whether a change is one that listeners must follow. */
export function isOfListeners({ section, key }: SettingChange): boolean {
  if (section === 'ssl') return true
  if (section === 'daemons') return key === 'httpsd'
  return (
    section === 'httpd' && ['port', 'bind_address', 'server_options', 'socket_options', 'max_connections'].includes(key)
  )
}

function securePlan(configuration: Configuration, folder: string, plain: ListenerPlan): ListenerPlan | undefined {
  if (configuration.get('daemons', 'httpsd') === undefined) return undefined
  return { ...plain, port: configuration.integer('ssl', 'port'), tls: tlsOptions(configuration.section('ssl'), folder) }
}

/** Without a certificate the listener is opened all the same; that fails with a message. */
function tlsOptions(settings: ReadonlyMap<string, string>, folder: string): TlsOptions {
  const text = (key: string) => settings.get(key)
  const file = (key: string) => {
    const path = settings.get(key)
    return path === undefined ? undefined : read(isAbsolute(path) ? path : resolve(folder, path))
  }
  const isVerifying = text('verify_ssl_certificates') === 'true'
  const given = {
    cert: file('cert_file'),
    key: file('key_file'),
    passphrase: text('password'),
    ca: file('cacert_file'),
    ciphers: text('ciphers'),
    ecdhCurve: text('ecc_curves'),
    ...versions(text('tls_versions')),
  }
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    requestCert: isVerifying,
    rejectUnauthorized: isVerifying && text('fail_if_no_peer_cert') !== 'false',
  }
}

const VERSIONS = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const

/** The lowest and the highest of a list such as `['tlsv1.2', 'tlsv1.3']`. */
function versions(text: string | undefined): TlsOptions {
  const listed = VERSIONS.filter((version) =>
    text
      ?.toLowerCase()
      .match(/tlsv1(\.\d)?/g)
      ?.includes(version.toLowerCase()),
  )
  const [lowest] = listed
  const highest = listed.at(-1)
  return lowest && highest ? { minVersion: lowest, maxVersion: highest } : {}
}

function read(path: string): Buffer | undefined {
  try {
    return readFileSync(path)
  } catch {
    return undefined
  }
}

function numberOr(text: string | undefined, otherwise: number): number {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : otherwise
}
