/** The servers under test: this one and pouchdb-server, each a process of its own on a free port of loopback. */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { delimiter, join, sep } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { serverCommand } from '../src/supervisor/server-command.ts'
import { member, parsed } from './bench-database.ts'
import { NodeProcess, temporaryFolder } from './child-process.ts'
import { addressOf, HttpConnection, requestText } from './http-connection.ts'

export interface RunningServer {
  readonly name: string
  readonly url: string
  /** Nothing when it was running before and is somebody else's. */
  readonly process?: NodeProcess
}

export interface StartedServer extends RunningServer {
  readonly process: NodeProcess
}

const PEER_FOLDER = join(import.meta.dirname, 'peer')
const STARTING_LIMIT_MS = 20_000

export interface SettleOptions {
  /** The folder of the data; a temporary one unless given. */
  readonly dir?: string
  /** Where the server writes a profile of its processor use when it ends. */
  readonly profileFolder?: string | undefined
  /** The address of the PostgreSQL that keeps the databases. */
  readonly engine?: string
}

export async function startSettle({ dir, profileFolder, engine }: SettleOptions = {}): Promise<StartedServer> {
  const profiling = profileFolder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileFolder}`]
  const data = ['--dir', dir ?? join(temporaryFolder(), 'data')]
  const place = engine === undefined ? [] : ['--engine', engine]
  // Without its supervisor, which does nothing while all is well.
  const settle = new NodeProcess(serverCommand(['--port', '0', ...data, ...place], profiling))
  return { name: 'settle', url: await settle.printed(/(http:\/\/\S+)/), process: settle }
}

/** Its log is off: it should be as fast as it can be. */
export async function startPouchdbServer(): Promise<StartedServer> {
  installPeer()
  const failures: string[] = []
  for (const node of nodesToTry()) {
    try {
      return await startPouchdbServerWith(node)
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error))
    }
  }
  throw new Error(`pouchdb-server did not start. ${failures.join(' ')}`)
}

/** A server that already runs, such as `http://admin:secret@127.0.0.1:5984/`. */
export async function runningServer(url: string): Promise<RunningServer> {
  const { host, port } = addressOf(url)
  const name = `${host}:${port}`
  try {
    await welcome(url)
  } catch (error) {
    throw new Error(`${name} does not answer: ${error instanceof Error ? error.message : error}`)
  }
  return { name, url }
}

async function startPouchdbServerWith(node: string): Promise<StartedServer> {
  const folder = temporaryFolder()
  const port = await freePort()
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ log: { level: 'none' } }))
  const script = join(PEER_FOLDER, 'node_modules', 'pouchdb-server', 'bin', 'pouchdb-server')
  const args = [
    script,
    '--port',
    String(port),
    '--host',
    '127.0.0.1',
    '--dir',
    join(folder, 'data'),
    '--no-stdout-logs',
  ]
  const peer = new NodeProcess({ node, args, cwd: folder })
  const url = `http://127.0.0.1:${port}/`
  const deadline = performance.now() + STARTING_LIMIT_MS
  while (peer.isRunning && performance.now() < deadline) {
    try {
      await welcome(url)
      return { name: 'pouchdb-server', url, process: peer }
    } catch {
      await delay(100)
    }
  }
  await peer.stop()
  throw new Error(`It does not run with ${node}.`)
}

async function welcome(url: string): Promise<void> {
  const server = addressOf(url)
  const connection = await HttpConnection.open(server)
  try {
    const answer = parsed(await connection.exchange(requestText(server, 'GET', '/')), 200)
    if (member(answer, 'version') === undefined) throw new Error('It is no server of this family.')
  } finally {
    connection.destroy()
  }
}

/** Installs pouchdb-server, once for every state of its lock file. */
function installPeer(): void {
  const marker = join(PEER_FOLDER, 'node_modules', '.installed')
  const wanted = createHash('sha256')
    .update(readFileSync(join(PEER_FOLDER, 'package-lock.json')))
    .digest('hex')
  if (existsSync(marker) && readFileSync(marker, 'utf8') === wanted) return
  process.stderr.write(
    'Installing pouchdb-server into bench/peer, to measure beside (once; it takes a minute or two)…\n',
  )
  const npm = process.env.npm_execpath
  const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
  const options = { cwd: PEER_FOLDER, stdio: ['ignore', 2, 2], shell: npm === undefined } as const
  const { status } = spawnSync(command, [...first, 'ci', '--ignore-scripts', '--loglevel=error'], {
    ...options,
    stdio: [...options.stdio],
  })
  if (status !== 0) throw new Error('pouchdb-server could not be installed; `--alone` measures without it.')
  writeFileSync(marker, wanted)
}

/** The Node that runs this, then those of the system: the peer is old and may not like the newest. */
function nodesToTry(): string[] {
  const folders = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => !folder.split(sep).includes('node_modules'))
  const found = folders.map((folder) => join(folder, 'node')).filter((path) => existsSync(path))
  return [...new Set([process.execPath, ...found])]
}

function freePort(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const server = createServer().once('error', reject)
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    server.close(() =>
      typeof address === 'object' && address ? resolve(address.port) : reject(new Error('No free port.')),
    )
  })
  return promise
}
