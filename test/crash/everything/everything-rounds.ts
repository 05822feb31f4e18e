/**
 * Kills a server at random moments while every part of it is at work: documents, attachments, indexes, compaction, purges,
 * replication, settings, and databases that come and go. After each kill the files are inspected and the server is started
 * again; each client then says whether it has what it was promised.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { DataFolder } from '../../../src/storage/files/data-folder.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { checkContents } from '../../database/check-database.ts'
import { DatabaseContents } from '../../database/database-contents.ts'
import { Client } from '../../support/client.ts'
import { Random } from '../random.ts'
import { ServerProcess } from '../server-process.ts'
import {
  type Actor,
  AttachmentActor,
  type CheckDepth,
  CompactingActor,
  DESIGN,
  IndexActor,
  PurgingActor,
  RecreatingActor,
  ReplicatingActor,
  SettingsActor,
  UnexpectedReply,
} from './actors.ts'

const MAIN = 'main'
const COPY = 'copy'
/** A life is some moments long: with luck in the middle of a commit, a build, a rename. */
const LONGEST_LIFE_MS = 600
const STARTING_MS = 500

export interface RunOptions {
  /** One in so many checks of what a life has left is a whole one, the others are brief. */
  readonly wholeEvery?: number
  /** How many of the servers are killed while they start. */
  readonly startingShare?: number
  readonly longestLifeMs?: number
  /** Called after each kill that left no problem. */
  readonly onKill?: () => void
}

export class EverythingRounds {
  readonly #folder: string
  readonly #random: Random
  readonly actors: readonly Actor[]

  constructor(folder: string, random = new Random()) {
    this.#folder = folder
    this.#random = random
    this.actors = [
      new AttachmentActor(MAIN, random),
      new SettingsActor(MAIN),
      new RecreatingActor('passing'),
      new PurgingActor(MAIN),
      new IndexActor(MAIN, random),
      new ReplicatingActor(MAIN, COPY),
      new CompactingActor([MAIN, COPY]),
    ]
  }

  get seed(): number {
    return this.#random.seed
  }

  /** Each life begins with a check of what the one before has left. The problems of the first round that has any. */
  async run(kills: number, options: RunOptions = {}): Promise<string[]> {
    const { wholeEvery = 1, startingShare = 0, longestLifeMs = LONGEST_LIFE_MS, onKill } = options
    for (let kill = 1; kill <= kills; kill++) {
      const depth = kill % wholeEvery === 0 ? 'whole' : 'brief'
      const lived = this.#random.chance(startingShare)
        ? this.#killWhileStarting()
        : this.live(this.#random.below(longestLifeMs), depth)
      const problems = [...(await lived), ...(await this.inspect())]
      if (problems.length > 0) return [`Kill ${kill}, seed ${this.seed}:`, ...problems]
      onKill?.()
    }
    return this.live(0)
  }

  async #killWhileStarting(): Promise<string[]> {
    const server = new ServerProcess(this.#folder)
    await pause(this.#random.below(STARTING_MS))
    await server.kill()
    return server.complaints === '' ? [] : [`The server wrote: ${server.complaints}`]
  }

  /** Starts the server, checks, works for a while, kills. */
  async live(lifeMs: number, depth: CheckDepth = 'whole'): Promise<string[]> {
    const server = new ServerProcess(this.#folder)
    const client = new Client((await server.url()) ?? 'http://127.0.0.1:1')
    try {
      if (!(await prepare(client))) return [`The server did not start: ${server.complaints}`]
      const problems: string[] = []
      // One after the other: replication compares two databases that others write to.
      for (const actor of this.actors) problems.push(...(await actor.check(client, depth)))
      if (problems.length > 0 || lifeMs === 0) return problems
      const working = this.actors.map((actor) => this.#work(actor, client))
      await pause(lifeMs)
      await server.kill()
      const unexpected = (await Promise.all(working)).flat()
      if (server.complaints !== '') unexpected.push(`The server wrote: ${server.complaints}`)
      return unexpected
    } finally {
      await server.kill()
      client.close()
    }
  }

  /** Every file that is there, each row of it. */
  async inspect(): Promise<string[]> {
    const folder = await DataFolder.open(this.#folder)
    const engine = await LmdbEngine.open({ folder: this.#folder })
    try {
      const problems: string[] = []
      for (const name of await engine.list()) {
        if (![MAIN, COPY, 'passing'].includes(name)) continue
        using snapshot = (await engine.open(name)).snapshot()
        const contents = await DatabaseContents.read(snapshot)
        if (contents.state === undefined && contents.records.size === 0) continue
        problems.push(...(await checkContents(contents, snapshot)).map((problem) => `${name}: ${problem}`))
      }
      return problems
    } finally {
      await engine.close()
      folder.close()
    }
  }

  async #work(actor: Actor, client: Client): Promise<string[]> {
    for (;;) {
      try {
        await actor.work(client)
      } catch (error) {
        return error instanceof UnexpectedReply ? [`${actor.constructor.name}: ${error.message}`] : []
      }
    }
  }
}

/** False where the server is not there. */
async function prepare(client: Client): Promise<boolean> {
  try {
    for (const name of [MAIN, COPY]) await client.request('PUT', `/${name}`)
    await client.request('PUT', `/${MAIN}/_design/d`, { body: DESIGN })
    await client.request('POST', `/${MAIN}/_index`, { body: { index: { fields: ['n'] }, ddoc: 'i', name: 'i' } })
    return true
  } catch {
    return false
  }
}
