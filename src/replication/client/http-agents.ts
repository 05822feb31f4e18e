/**
 * Connections to other servers, shared by all replications: a bounded number to each host, kept open between requests.
 * Feeds that stay open have connections of their own, so that they never take those of requests.
 */
import { readFileSync } from 'node:fs'
import { Agent, type Dispatcher, ProxyAgent, Socks5ProxyAgent } from 'undici'
import type { TlsSettings } from '../replication-settings.ts'

export interface AgentOptions {
  readonly proxy: string | undefined
  readonly tls: TlsSettings
  /** Connections to one host. */
  readonly connections: number
  /** The idle timeout of a connection. */
  readonly timeoutMs: number
}

export interface Agents {
  readonly requests: Dispatcher
  readonly feeds: Dispatcher
}

/** Agents that are kept; beyond that the least recently used ones are closed. */
const MOST_AGENTS = 32
const KEEP_ALIVE_MS = 10_000
const CONNECT_TIMEOUT_MS = 30_000

export class HttpAgents {
  /** By their options, in order of last use. */
  readonly #agents = new Map<string, Agents>()

  /** The agent for these options. To be called before each request, which marks it as used. */
  for(options: AgentOptions): Agents {
    const key = JSON.stringify(options)
    const agents = this.#agents.get(key) ?? { requests: agentOf(options), feeds: agentOf(options, 'unbounded') }
    this.#agents.delete(key)
    this.#agents.set(key, agents)
    for (const [oldest, unused] of this.#agents) {
      if (this.#agents.size <= MOST_AGENTS) break
      this.#agents.delete(oldest)
      // Requests under way are finished.
      for (const agent of [unused.requests, unused.feeds]) agent.close().catch(() => {})
    }
    return agents
  }

  async close(): Promise<void> {
    const all = [...this.#agents.values()].flatMap(({ requests, feeds }) => [requests, feeds])
    this.#agents.clear()
    await Promise.all(all.map((agent) => agent.destroy()))
  }
}

function agentOf({ proxy, tls, connections, timeoutMs }: AgentOptions, bound?: 'unbounded'): Dispatcher {
  const secured = tlsOptions(tls)
  const options = {
    connections: bound ? null : connections,
    pipelining: 1,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connect: { timeout: Math.min(timeoutMs, CONNECT_TIMEOUT_MS), ...secured },
  }
  if (proxy === undefined) return new Agent(options)
  const { connect: _, ...others } = options
  if (proxy.startsWith('socks5:')) {
    const { username, password } = new URL(proxy)
    const user = { username: decodeURIComponent(username), password: decodeURIComponent(password) }
    return new Socks5ProxyAgent(proxy, { ...others, ...(username === '' ? {} : user), requestTls: secured })
  }
  const { username, password } = new URL(proxy)
  const name = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const token = username === '' ? {} : { token: `Basic ${Buffer.from(name).toString('base64')}` }
  return new ProxyAgent({ ...others, ...token, uri: proxy, requestTls: secured, proxyTunnel: false })
}

function tlsOptions(tls: TlsSettings) {
  const { certFile, keyFile, password, trustedCertificatesFile, verifyCertificates } = tls
  return {
    rejectUnauthorized: verifyCertificates,
    ...(certFile === undefined ? {} : { cert: readFileSync(certFile) }),
    ...(keyFile === undefined ? {} : { key: readFileSync(keyFile) }),
    ...(password === undefined ? {} : { passphrase: password }),
    ...(trustedCertificatesFile === undefined ? {} : { ca: readFileSync(trustedCertificatesFile) }),
  }
}
