/**
 * Kills a server in the middle of its work on an index, in first builds and in later updates, over and over. The index
 * must then be whole as it stands, and show what a naive evaluation of all documents shows once it was asked again.
 */
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Databases } from '../../../src/database/databases.ts'
import { systemClock } from '../../../src/runtime/clock.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { TaskRegistry } from '../../../src/runtime/tasks.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { viewDesign } from '../../../src/views/design/view-design.ts'
import { indexStoreName } from '../../../src/views/index-store-name.ts'
import { LocalRunner } from '../../../src/views/updating/index-runner.ts'
import { Views } from '../../../src/views/views.ts'
import { Client } from '../../support/client.ts'
import { LocalFunctions } from '../../views/local-functions.ts'
import { naiveReduction, naiveRows } from '../../views/naive-views.ts'
import { reducedOf, rowsOf } from '../../views/test-views.ts'
import type { Random } from '../random.ts'
import { ServerProcess } from '../server-process.ts'

const MAP = 'function (doc) { emit([doc.kind, doc.n], doc.n); emit(doc.text, doc.n) }'

const MEMBERS = {
  views: {
    sums: { map: MAP, reduce: '_sum' },
    own: { map: MAP, reduce: 'function (keys, values) { return values.reduce(function (a, b) { return a + b }, 0) }' },
    plain: { map: 'function (doc) { emit(doc._rev, null) }' },
  },
}

const DESIGN = viewDesign('_design/test', MEMBERS, { isPartitioned: false })

/** So small that a first build takes many runs. */
const SETTINGS = '[view_building]\nsort_memory = 60000\n'

const LONGEST_WAIT_MS = 20_000

interface Task {
  readonly type: string
  readonly changes_done: number
  readonly total_changes: number
}

export class ViewRounds {
  readonly #folder: string
  readonly #random: Random
  readonly #documents: number
  /** What was in the middle of its work when it was killed, and what a build had kept by then. */
  readonly seen = { builds: 0, updates: 0, keptRuns: 0 }
  #number = 0

  /** The more documents there are, the longer the work on their index takes, and the surer a kill meets it. */
  constructor(folder: string, random: Random, documents = 4000) {
    this.#folder = folder
    this.#random = random
    this.#documents = documents
  }

  /** A new database whose index is being built when the server is killed, some times; the problems that are found. */
  async build(kills: number): Promise<string[]> {
    await writeFile(join(this.#folder, 'local.ini'), SETTINGS)
    const name = `db${++this.#number}`
    await this.#live(async (client) => {
      await client.request('PUT', `/${name}`)
      await client.request('PUT', `/${name}/_design/test`, { body: MEMBERS })
      await this.#write(client, name, this.#documents)
    })
    const problems: string[] = []
    for (let kill = 0; kill < kills; kill++) {
      if (await this.#killWhileIndexing(name)) this.seen.builds++
      this.seen.keptRuns += await this.#keptRuns(name)
      problems.push(...(await this.#inspect(name, 'stale')))
    }
    return [...problems, ...(await this.#inspect(name, 'updated'))]
  }

  /** The same for a database whose index was built, and is behind. */
  async update(kills: number): Promise<string[]> {
    const name = `db${this.#number}`
    const problems: string[] = []
    for (let kill = 0; kill < kills; kill++) {
      const killed = await this.#killWhileIndexing(name, async (client) => {
        await client.request('GET', `/${name}/_design/test/_view/plain?limit=0`)
        await this.#write(client, name, this.#documents / 2)
      })
      if (killed) this.seen.updates++
      problems.push(...(await this.#inspect(name, 'stale')))
    }
    return [...problems, ...(await this.#inspect(name, 'updated'))]
  }

  async #live(use: (client: Client, server: ServerProcess) => Promise<void>): Promise<void> {
    const server = new ServerProcess(this.#folder)
    try {
      const url = await server.url()
      if (url === undefined) throw new Error(`The server ended by itself: ${server.complaints}`)
      const client = new Client(url)
      await use(client, server)
      client.close()
    } finally {
      await server.kill()
    }
  }

  /** Whether the server was killed while it worked on the index. */
  async #killWhileIndexing(name: string, prepare?: (client: Client) => Promise<void>): Promise<boolean> {
    let isAtWork = false
    await this.#live(async (client) => {
      await prepare?.(client)
      const query = client.request('GET', `/${name}/_design/test/_view/sums`).then(
        () => 'answered' as const,
        () => 'failed' as const,
      )
      const share = this.#random.next()
      const deadline = performance.now() + LONGEST_WAIT_MS
      let answer: 'answered' | 'failed' | undefined
      query.then((outcome) => {
        answer = outcome
      })
      while (!answer && performance.now() < deadline) {
        const tasks = (await client.request('GET', '/_active_tasks')).as<Task[]>()
        const task = tasks.find(({ type }) => type === 'indexer')
        if (task && task.total_changes > 0 && task.changes_done >= share * task.total_changes) break
        await pause(2)
      }
      // Somewhere between two reports.
      await pause(this.#random.below(30))
      isAtWork = answer === undefined
    })
    return isAtWork
  }

  /** New documents, and new revisions and deletions of some that there were. */
  async #write(client: Client, name: string, count: number): Promise<void> {
    for (let first = 0; first < count; first += 1000) {
      const docs = Array.from({ length: Math.min(1000, count - first) }, () => this.#document())
      await client.request('POST', `/${name}/_bulk_docs`, { body: { docs, new_edits: false } })
    }
  }

  #document(): object {
    const n = this.#random.below(1000)
    const generation = 1 + this.#random.below(100)
    return {
      _id: `doc${this.#random.below(this.#documents)}`,
      _rev: `${generation}-${this.#random
        .below(2 ** 31)
        .toString(16)
        .padStart(32, '0')}`,
      ...(this.#random.chance(0.1) && { _deleted: true }),
      kind: `kind ${n % 7}`,
      text: `${'text '.repeat(1 + (n % 5))}${this.#random.below(100)}`,
      n,
    }
  }

  async #keptRuns(name: string): Promise<number> {
    const engine = await LmdbEngine.open({ folder: join(this.#folder, 'view_indexes') })
    const store = indexStoreName(name, DESIGN.signature)
    const folder = engine.has(store) ? engine.scratchFolder(store) : ''
    await engine.close()
    const files = await readdir(folder).catch(() => [])
    return files.filter((file) => file.endsWith('.run')).length
  }

  /** Holds the index against itself; where it is brought up to date first, against the documents too. */
  async #inspect(name: string, freshness: 'stale' | 'updated'): Promise<string[]> {
    if (freshness === 'updated') {
      await this.#live(async (client) => {
        const reply = await client.request('GET', `/${name}/_design/test/_view/sums`)
        if (reply.status !== 200) throw new Error(`The view cannot be read: ${reply.text}`)
      })
    }
    const engine = await LmdbEngine.open({ folder: this.#folder })
    const indexEngine = await LmdbEngine.open({ folder: join(this.#folder, 'view_indexes') })
    const tasks = new TaskRegistry(systemClock)
    const functions = new LocalFunctions()
    const databases = new Databases(engine, { clock: systemClock, log: silentLog, tasks })
    const runner = new LocalRunner(functions)
    const views = await Views.open({ databases, engine: indexEngine, functions, runner, tasks, log: silentLog })
    const problems: string[] = []
    try {
      const database = await databases.get(name)
      using index = await views.openIndex(database, DESIGN, 'stale')
      const { updateSequence } = await database.information()
      if (freshness === 'updated' && index.updateSequence !== updateSequence) problems.push('The index is behind.')
      for (const [view, { number, reduce }] of DESIGN.views) {
        const opened = index.view(view)!
        const faults = await opened.ranks.check(opened.snapshot)
        if (faults.wrong + faults.extra > 0) problems.push(`The tree of ${view} has faults: ${JSON.stringify(faults)}`)
        if (freshness === 'stale') continue
        const expected = await naiveRows(database, DESIGN, view)
        const rows = await rowsOf(opened)
        if (JSON.stringify(rows) !== JSON.stringify(expected)) {
          problems.push(`${view} has ${rows.length} rows, not these ${expected.length}.`)
        }
        if (reduce === undefined) continue
        const reduced = JSON.stringify(await reducedOf(opened))
        const sum = JSON.stringify(naiveReduction(DESIGN.maps[number]!.reduces[reduce]!, expected))
        if (reduced !== sum) problems.push(`${view} reduces to ${reduced}, not to ${sum}.`)
      }
    } finally {
      await views.close()
      await databases.close()
      await engine.close()
      await indexEngine.close()
    }
    return problems
  }
}
