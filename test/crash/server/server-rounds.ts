/**
 * Kills a server at random moments while clients write to it, looks into its folder, and starts it again, over and
 * over. Every problem is a sentence; none means that all that was promised is there, and nothing is half there.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { DataFolder } from '../../../src/storage/files/data-folder.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { checkContents } from '../../database/check-database.ts'
import { DatabaseContents } from '../../database/database-contents.ts'
import { Client, type DatabaseInformation } from '../../support/client.ts'
import { withinLimit } from '../../support/step-limit.ts'
import { Random } from '../random.ts'
import { ServerProcess } from '../server-process.ts'
import { listingProblems } from './server-listing.ts'
import { ServerWriter } from './server-writer.ts'

export interface ServerRoundsOptions {
  readonly folder: string
  /** Compacts all databases, again and again. */
  readonly compacts?: boolean
}

const DATABASES = ['left', 'right']
const WRITERS_A_DATABASE = 4
/** A server is killed some moments after so many acknowledgements, at most, or when it takes too long for them. */
const MOST_ACKNOWLEDGEMENTS = 200
const MOMENTS_MS = 10
const LONGEST_LIFE_MS = 2000
/** Some are killed while they start. */
const STARTING_SHARE = 0.1
const STARTING_MS = 500

export class ServerRounds {
  readonly #folder: string
  readonly #compacts: boolean
  readonly #random = new Random()
  readonly #writers: readonly ServerWriter[]
  #compactions = 0

  constructor({ folder, compacts = false }: ServerRoundsOptions) {
    this.#folder = folder
    this.#compacts = compacts
    this.#writers = DATABASES.flatMap((database) =>
      Array.from({ length: WRITERS_A_DATABASE }, (_, i) => new ServerWriter(`${database}${i}`, database, this.#random)),
    )
  }

  get acknowledged(): number {
    return this.#writers.reduce((sum, { acknowledged }) => sum + acknowledged, 0)
  }

  /** Compactions that were over before their server was. */
  get compactions(): number {
    return this.#compactions
  }

  /** The problems of the first round that has any. */
  async run(rounds: number): Promise<string[]> {
    for (let round = 1; round <= rounds; round++) {
      const problems = await withinLimit(`Round ${round}, seed ${this.#random.seed},`, this.round())
      if (problems.length > 0) {
        return [`Round ${round}, seed ${this.#random.seed}:`, ...problems.slice(0, PROBLEMS_TOLD)]
      }
    }
    return []
  }

  /** One life of the server and what it leaves behind. */
  async round(): Promise<string[]> {
    const server = new ServerProcess(this.#folder)
    let problems: string[] = []
    try {
      if (this.#random.chance(STARTING_SHARE)) await pause(this.#random.below(STARTING_MS))
      else problems = await this.#use(server)
    } finally {
      await server.kill()
    }
    if (server.endedByItself) problems.push('The server ended by itself.')
    if (server.complaints !== '') problems.push(`The server wrote: ${server.complaints}`)
    problems.push(...this.#writers.flatMap((writer) => writer.problems))
    return [...problems, ...(await this.inspect())]
  }

  /** Holds the folder, which no server must be using, against the ledgers. */
  async inspect(): Promise<string[]> {
    const folder = await DataFolder.open(this.#folder)
    const engine = await LmdbEngine.open({ folder: this.#folder })
    try {
      const problems: string[] = []
      for (const name of DATABASES) {
        const found = engine.has(name) ? await this.#inspectDatabase(engine, name) : this.#missing(name)
        problems.push(...found.map((problem) => `${name}: ${problem}`))
      }
      return problems
    } finally {
      await engine.close()
      folder.close()
    }
  }

  async #inspectDatabase(engine: LmdbEngine, name: string): Promise<string[]> {
    using snapshot = (await engine.open(name)).snapshot()
    const contents = await DatabaseContents.read(snapshot)
    const writers = this.#writersOf(name)
    const problems = writers.flatMap(({ ledger }) => ledger.settle(contents))
    const isMade = contents.state !== undefined || contents.records.size > 0
    if (isMade) problems.push(...(await checkContents(contents, snapshot)))
    const changes = writers.reduce((sum, { ledger }) => sum + ledger.changes, 0)
    const updateSequence = contents.state?.updateSequence ?? 0
    if (updateSequence !== changes) problems.push(`the update sequence is ${updateSequence} after ${changes} changes`)
    return problems
  }

  #missing(name: string): string[] {
    return this.#writersOf(name).some(({ acknowledged }) => acknowledged > 0) ? ['the database is missing'] : []
  }

  #writersOf(name: string): ServerWriter[] {
    return this.#writers.filter(({ database }) => database === name)
  }

  async #use(server: ServerProcess): Promise<string[]> {
    const url = await server.url()
    if (!url) return ['The server did not start.']
    const client = new Client(url)
    try {
      const problems: string[] = []
      for (const name of DATABASES) {
        await client.request('PUT', `/${name}`)
        problems.push(...(await listingProblems(client, name, this.#random)))
      }
      const writing = this.#writers.map((writer) => writer.write(client))
      if (this.#compacts) writing.push(...DATABASES.map((name) => this.#compact(client, name)))
      await Promise.race([this.#moment(), Promise.all(writing)])
      await server.kill()
      await Promise.all(writing)
      return problems
    } finally {
      client.close()
    }
  }

  async #moment(): Promise<void> {
    const enough = this.acknowledged + this.#random.below(MOST_ACKNOWLEDGEMENTS)
    const deadline = performance.now() + LONGEST_LIFE_MS
    while (this.acknowledged < enough && performance.now() < deadline) await pause(1)
    await pause(this.#random.below(MOMENTS_MS))
  }

  /** Until the connection breaks. */
  async #compact(client: Client, name: string): Promise<void> {
    try {
      for (;;) {
        await client.request('POST', `/${name}/_compact`, { body: '' })
        while ((await client.request('GET', `/${name}`)).as<DatabaseInformation>().compact_running) await pause(2)
        this.#compactions++
      }
    } catch {}
  }
}

const PROBLEMS_TOLD = 20
