/** Secondaries that do nothing but open files, beside clients that write and query. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unsharedSockets } from '../../src/http/listeners/listener.ts'
import type { Log } from '../../src/runtime/log/log.ts'
import { createService } from '../../src/service.ts'
import { takeLease } from '../../src/storage/files/folder-lock.ts'

const VIEW = { views: { ids: { map: 'function (doc) { emit(doc._id, 1) }', reduce: '_sum' } } }

/** A primary in this process, with a database `db` and an index. */
export class OpeningPrimary implements AsyncDisposable {
  readonly url: string
  /** Hears of errors in the log. */
  readonly reports: { onError: (message: string) => void }
  readonly #folder: string
  readonly close: () => Promise<void>
  readonly #children = new Set<ChildProcess>()

  /** Secondaries may take so long to open a file. */
  static async start(dir: string, openMs = 120_000): Promise<OpeningPrimary> {
    const folder = await mkdtemp(join(tmpdir(), 'settle-nodes-'))
    const reports = { onError: (_message: string) => {} }
    const ignore = () => {}
    const log: Log = { debug: ignore, info: ignore, warn: ignore, error: (message) => reports.onError(message) }
    const service = await createService({
      dir,
      port: 0,
      log,
      settings: { service: { nodes: '2' }, lmdb: { open_timeout: String(openMs) } },
      supervisor: { takeLease, sockets: unsharedSockets, previousEnd: undefined, term: 1, nodeFolder: folder },
    })
    const primary = new OpeningPrimary(await service.listen(), reports, folder, () => service.close())
    await primary.send('PUT', 'db')
    await primary.send('PUT', 'db/_design/d', VIEW)
    await primary.send('PUT', 'db/first', {})
    await primary.rowCount()
    return primary
  }

  private constructor(url: string, reports: OpeningPrimary['reports'], folder: string, close: () => Promise<void>) {
    this.url = url
    this.reports = reports
    this.#folder = folder
    this.close = close
  }

  async send(method: string, path: string, body?: unknown): Promise<unknown> {
    const reply = await fetch(`${this.url}${path}`, {
      method,
      headers: { 'Content-Type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await reply.text()
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`)
    return JSON.parse(text)
  }

  /** As the updated index has it. */
  async rowCount(): Promise<number> {
    const { rows } = (await this.send('GET', 'db/_design/d/_view/ids')) as { rows: { value: number }[] }
    return rows[0]?.value ?? 0
  }

  /** A process as `opening-node.ts` describes it. */
  node(mode: 'churn' | 'hold:databases' | 'hold:indexes'): ChildProcess {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'opening-node.ts'), this.#folder, mode], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#children.add(child)
    return child
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    await this.close()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Resolves to the lines of the process when it has written so many. */
export async function lines(child: ChildProcess, count: number): Promise<string[]> {
  let seen = ''
  const { promise, resolve, reject } = Promise.withResolvers<string[]>()
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    seen += text
    const complete = seen.split('\n').slice(0, -1)
    if (complete.length >= count) resolve(complete)
  })
  child.once('exit', (code, signal) => reject(new Error(`A node ended: ${signal ?? code}.`)))
  return promise
}

export interface OpeningOutcome {
  readonly writes: number
  /** Documents that can be read at the end, and those that the index counts. */
  readonly documents: number
  readonly rows: number
  /** How often LMDB forgot a commit since a file was opened. */
  readonly forgotten: number
}

/** Writes and queries until each of the nodes has opened so many files. */
export async function openWhileWriting(dir: string, nodes: number, openings: number): Promise<OpeningOutcome> {
  await using primary = await OpeningPrimary.start(dir)
  const churning = Array.from({ length: nodes }, () => lines(primary.node('churn'), openings))
  let isDone = false
  let writes = 1
  const write = async (writer: number) => {
    for (let i = 0; !isDone; i++) {
      await primary.send('PUT', `db/${writer}-${i}`, { i })
      writes++
    }
  }
  const query = async () => {
    while (!isDone) await primary.rowCount()
  }
  const clients = Promise.all([write(1), write(2), query()])
  let opened: string[][] | unknown[] = []
  try {
    opened = await Promise.race([Promise.all(churning), clients])
  } finally {
    isDone = true
    await clients
  }
  const forgotten = opened.flat().filter((line) => line === 'forgotten').length
  const { rows } = (await primary.send('GET', 'db/_all_docs')) as { rows: { id: string }[] }
  const documents = rows.filter(({ id }) => !id.startsWith('_')).length
  return { writes, documents, rows: await primary.rowCount(), forgotten }
}
