/** Clients of single nodes: the log shows which node a connection belongs to, since each node writes its process id. */
import { readFile } from 'node:fs/promises'
import { Agent, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { until } from '../support/until.ts'

export interface NodeReply {
  readonly status: number
  readonly headers: Record<string, string | string[] | undefined>
  readonly text: string
}

export interface NodeRequest {
  readonly headers?: Record<string, string>
  /** Anything but a string goes out as JSON. */
  readonly body?: unknown
}

/** Sends all requests over one connection, and so to one node. */
export class NodeClient {
  readonly pid: number
  readonly #url: URL
  readonly #agent: Agent

  constructor(pid: number, url: URL, agent: Agent) {
    this.pid = pid
    this.#url = url
    this.#agent = agent
  }

  request(method: string, path: string, options: NodeRequest = {}): Promise<NodeReply> {
    return sent(this.#url, this.#agent, method, path, options)
  }

  async json(method: string, path: string, options: NodeRequest = {}): Promise<Record<string, unknown>> {
    return JSON.parse((await this.request(method, path, options)).text)
  }

  close(): void {
    this.#agent.destroy()
  }
}

let probes = 0

/** One client for each of the processes. */
export async function clientsOfNodes(url: string, folder: string, pids: readonly number[]): Promise<NodeClient[]> {
  const clients = new Map<number, NodeClient>()
  await until(async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const probe = `probe=${process.pid}-${++probes}-`
    const { status } = await sent(new URL(url), agent, 'GET', `/?${probe}`)
    if (status !== 200) return false
    let pid: number | undefined
    await until(async () => {
      const log = await readFile(join(folder, 'settle.log'), 'utf8')
      const line = log.split('\n').find((each) => each.includes(probe))
      pid = Number(/\[info\] \[(\d+)\]/.exec(line ?? '')?.[1])
      return line !== undefined
    })
    if (pid !== undefined && pids.includes(pid) && !clients.has(pid)) {
      clients.set(pid, new NodeClient(pid, new URL(url), agent))
    } else agent.destroy()
    return clients.size === pids.length
  }, 60_000)
  return pids.flatMap((pid) => clients.get(pid) ?? [])
}

function sent(
  { hostname, port }: URL,
  agent: Agent,
  method: string,
  path: string,
  { headers = {}, body }: NodeRequest = {},
): Promise<NodeReply> {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const type = text === undefined ? {} : { 'Content-Type': 'application/json' }
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      { agent, hostname, port, method, path, headers: { ...type, ...headers } },
      (response) => {
        let received = ''
        response
          .setEncoding('utf8')
          .on('data', (piece: string) => {
            received += piece
          })
          .on('error', reject)
          .on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text: received }))
      },
    )
    outgoing.on('error', reject).end(text)
  })
}
