/**
 * `npm run bench:accepting`: two ways for several processes to serve one port. One listening socket that all of them accept
 * from, or a socket for each (`SO_REUSEPORT`), between which the system chooses. How evenly connections are shared out when
 * nobody is busy and when one process is, and how many clients are cut off when a process is killed.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { printTable } from './report.ts'

const PROCESSES = 4
const CONNECTIONS = 2000
/** Connections that come while one process does not get to accept them. */
const BURST = 400

type Way = 'one socket' | 'a socket each'

/** The part of each process: accepts, says how often, and is busy when told to. */
function serve(): void {
  let accepted = 0
  const server = createServer((socket) => {
    accepted++
    socket.on('error', () => {}).end(String(process.pid))
  })
  process.on('message', (message: { kind: string; port?: number; ms?: number }, handle?: Server) => {
    if (message.kind === 'busy') {
      process.send?.({ kind: 'busy' })
      for (const endMs = performance.now() + (message.ms ?? 0); performance.now() < endMs; );
    } else if (message.kind === 'count') {
      process.send?.({ kind: 'count', accepted })
      accepted = 0
    } else if (handle) {
      server.listen(Reflect.get(handle, '_handle'), () => process.send?.({ kind: 'listening' }))
    } else {
      const options = { host: '127.0.0.1', port: message.port ?? 0, reusePort: true }
      server.listen(options, () => process.send?.({ kind: 'listening' }))
    }
  })
  process.on('disconnect', () => process.exit(0))
}

class Processes {
  readonly port: number
  readonly #children: ChildProcess[]

  static async start(way: Way): Promise<Processes> {
    const kept = createServer()
    kept.listen({ host: '127.0.0.1', port: 0, reusePort: way === 'a socket each' })
    await once(kept, 'listening')
    const address = kept.address()
    const port = typeof address === 'object' && address ? address.port : 0
    // The port is known, and that is enough for the others.
    if (way === 'a socket each') await new Promise((resolve) => kept.close(resolve))
    const children = Array.from({ length: PROCESSES }, () => fork(import.meta.filename, ['serve']))
    for (const child of children) {
      const listening = once(child, 'message')
      child.send({ kind: 'listen', port }, way === 'one socket' ? kept : undefined)
      await listening
    }
    // This process must not accept.
    if (way === 'one socket') kept.close()
    return new Processes(port, children)
  }

  private constructor(port: number, children: ChildProcess[]) {
    this.port = port
    this.#children = children
  }

  /** Of all processes, since it was asked for last. */
  async accepted(): Promise<number[]> {
    return Promise.all(
      this.#children.map(async (child) => {
        const reply = once(child, 'message')
        child.send({ kind: 'count' })
        const [{ accepted }] = await reply
        return accepted
      }),
    )
  }

  /** Resolves when the first process has begun to do nothing else. */
  async occupy(ms: number): Promise<void> {
    const [first] = this.#children
    const begun = once(first!, 'message')
    first!.send({ kind: 'busy', ms })
    await begun
  }

  kill(): void {
    this.#children[0]?.kill('SIGKILL')
  }

  stop(): void {
    for (const child of this.#children) child.kill('SIGKILL')
  }
}

/** Whether the connection was answered. */
function visit(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    let hasAnswer = false
    const socket: Socket = connect(port, '127.0.0.1')
    socket
      .on('data', () => (hasAnswer = true))
      .on('error', () => {})
      .on('close', () => resolve(hasAnswer))
  })
}

async function visitSome(port: number, count: number, atOnce: number): Promise<number> {
  let begun = 0
  let unanswered = 0
  const visitors = Array.from({ length: atOnce }, async () => {
    while (begun++ < count) if (!(await visit(port))) unanswered++
  })
  await Promise.all(visitors)
  return unanswered
}

function shares(accepted: readonly number[]): string {
  const all = accepted.reduce((sum, each) => sum + each, 0)
  return accepted.map((each) => `${Math.round((100 * each) / all)} %`).join(', ')
}

if (process.argv[2] === 'serve') serve()
else {
  const rows: string[][] = []
  for (const way of ['one socket', 'a socket each'] as const) {
    const processes = await Processes.start(way)
    await visitSome(processes.port, CONNECTIONS, 1)
    const oneByOne = shares(await processes.accepted())
    await visitSome(processes.port, CONNECTIONS, 32)
    const together = shares(await processes.accepted())
    await processes.occupy(2000)
    const begunMs = performance.now()
    const visits = Array.from({ length: BURST }, () => visit(processes.port).then(() => performance.now() - begunMs))
    const late = (await Promise.all(visits)).filter((ms) => ms > 1000).length
    await processes.accepted()
    await processes.occupy(60_000)
    const burst = Array.from({ length: BURST }, () => visit(processes.port))
    await new Promise((resolve) => setTimeout(resolve, 500))
    processes.kill()
    const cutOff = (await Promise.all(burst)).filter((isAnswered) => !isAnswered).length
    rows.push([way, oneByOne, together, `${late} of ${BURST}`, `${cutOff} of ${BURST}`])
    processes.stop()
  }
  printTable(
    [`${PROCESSES} processes`, 'one by one', '32 at a time', 'wait for a busy process', 'cut off by its end'],
    rows,
  )
  process.exit(0)
}
