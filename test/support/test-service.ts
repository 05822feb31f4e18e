/**
 * The server of black-box tests: in the process of the test; or, where `SETTLE_TEST_NODES` says how many, with several nodes
 * that connections go to in turn. Where it says `secondary` every request comes to a secondary, and where it says `settle`
 * the server is the `settle` command with four nodes. On PostgreSQL the nodes are servers behind a load balancer.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createService, type Service, type ServiceOptions } from '../../src/service.ts'
import { PooledService } from './secondary-pool.ts'
import { ServersOnPostgres } from './servers-on-postgres.ts'

const CLI = join(import.meta.dirname, '../../src/cli.ts')

const mode = process.env.SETTLE_TEST_NODES ?? '1'

/** How many nodes the servers of tests have. */
export const TEST_NODES = { secondary: 2, settle: 4 }[mode] ?? Number(mode)

/** Whether clients reach the nodes through a load balancer, so that the server does not know its port. */
export const isBalanced = TEST_NODES > 1 && mode !== 'settle'

/** Whether the nodes are servers on PostgreSQL: what is in memory, and counts for one process, is each server's own. */
export const HAS_SEVERAL_SERVERS = TEST_NODES > 1 && process.env.SETTLE_TEST_STORE === 'postgres'

/** The messages to a service of another process. */
const SUPPORTED = new Set(['dir', 'port', 'bind', 'dialect', 'settings'])

export async function createTestService(options: ServiceOptions): Promise<Service> {
  if (TEST_NODES > 1 && options.engine !== undefined) return new ServersOnPostgres(options, TEST_NODES)
  const isSupported = Object.keys(options).every((name) => SUPPORTED.has(name))
  if (TEST_NODES < 2 || !isSupported) return createService(options)
  if (mode === 'settle') return new CommandService(options, TEST_NODES)
  return new PooledService(options, { secondaries: TEST_NODES - 1, withPrimary: mode !== 'secondary' })
}

/** The `settle` command with several nodes, as a service. */
export class CommandService implements Service {
  readonly secondaries = undefined
  readonly #options: ServiceOptions
  readonly #nodes: number
  #child: ChildProcess | undefined
  #url: string | undefined
  #complaints = ''

  constructor(options: ServiceOptions, nodes: number) {
    this.#options = options
    this.#nodes = nodes
  }

  get url(): string {
    const [url] = this.urls
    if (url === undefined) throw new Error('The service does not listen yet.')
    return url
  }

  /** As the server has written them last. */
  get urls(): readonly string[] {
    if (this.#url === undefined) return []
    const { dir } = this.#options
    try {
      const lines = dir === undefined ? '' : readFileSync(join(dir, 'settle.uri'), 'utf8')
      const urls = lines.split('\n').filter(Boolean)
      return urls.length > 0 ? urls : [this.#url]
    } catch {
      return [this.#url]
    }
  }

  /** What it wrote to its error output. */
  get complaints(): string {
    return this.#complaints
  }

  async listen(): Promise<string> {
    const { dir, port = 0, bind, dialect, settings = {} } = this.#options
    const flags = [
      ['--port', String(port)],
      ['--nodes', String(this.#nodes)],
      ...(dir === undefined ? [] : [['--dir', dir]]),
      ...(bind === undefined ? [] : [['--bind', bind]]),
      ...(dialect === undefined ? [] : [['--dialect', dialect]]),
      ...Object.entries(settings).flatMap(([section, keys]) =>
        Object.entries(keys).map(([key, value]) => ['--set', `${section}/${key}=${value}`]),
      ),
    ].flat()
    const child = spawn(process.execPath, [CLI, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
    this.#child = child
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#complaints += text
    })
    this.#url = await new Promise<string>((resolve, reject) => {
      let said = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text
        const [url] = /http:\S+/.exec(said) ?? []
        if (url) resolve(url)
      })
      child.once('exit', () => reject(new Error(this.#complaints.replace(/^settle: /, '').trim())))
    })
    const port0 = Number(new URL(this.#url).port)
    while (this.listeningPids(port0).length < this.#nodes) await pause(20)
    return this.#url
  }

  async close(): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  }

  /** The supervisor. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** The process that the other nodes are connected to; undefined while there is none. */
  get primaryPid(): number | undefined {
    const named = socketsOf('unix').filter(([, , , , , , , path]) => path?.endsWith('/primary.sock'))
    const sockets = new Set(named.map(([, , , , , , inode]) => `socket:[${inode}]`))
    return childrenOf(this.#child?.pid).find((pid) => hasOneOf(pid, sockets))
  }

  /** The processes of the nodes, those that were started first at the front. */
  listeningPids(port = Number(new URL(this.url).port)): number[] {
    const sockets = listeningSockets(port)
    return childrenOf(this.#child?.pid).filter((pid) => hasOneOf(pid, sockets))
  }
}

/** The sockets of the system of one kind, as fields of lines. */
function socketsOf(kind: string): string[][] {
  try {
    const lines = readFileSync(`/proc/net/${kind}`, 'utf8').split('\n')
    return lines.map((line) => line.trim().split(/\s+/))
  } catch {
    return []
  }
}

/** The inodes of the sockets that listen on a port. */
function listeningSockets(port: number): Set<string> {
  const hexadecimal = port.toString(16).toUpperCase().padStart(4, '0')
  const listening = ['tcp', 'tcp6']
    .flatMap(socketsOf)
    .filter(([, local, , state]) => state === '0A' && local?.endsWith(`:${hexadecimal}`))
  return new Set(listening.map(([, , , , , , , , , inode]) => `socket:[${inode}]`))
}

function childrenOf(pid: number | undefined): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

function hasOneOf(pid: number, sockets: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((descriptor) => {
      try {
        return sockets.has(readlinkSync(`/proc/${pid}/fd/${descriptor}`))
      } catch {
        return false
      }
    })
  } catch {
    return false
  }
}
