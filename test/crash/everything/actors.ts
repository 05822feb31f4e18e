/**
 * Clients that each use one part of the server for as long as it lives, know what they were promised, and say after a
 * crash what of it does not hold. `work` ends when the connection breaks.
 */
import { createHash } from 'node:crypto'
import type { Client, Reply } from '../../support/client.ts'
import type { Random } from '../random.ts'
import { Register } from './register.ts'

export interface Actor {
  /** Promises that it was given, in all. */
  readonly acknowledgements: number
  /** One request or a few; rejects where the server is gone. */
  work(client: Client): Promise<void>
  /** After a crash, and before it works again. The problems, in sentences. */
  check(client: Client, depth: CheckDepth): Promise<string[]>
}

/** `brief`: only what the actor needs to know to continue, and whatever that shows. */
export type CheckDepth = 'whole' | 'brief'

async function must(reply: Promise<Reply>, ...statuses: number[]): Promise<Reply> {
  const { status, text } = await reply
  if (!statuses.includes(status)) throw new UnexpectedReply(`${status} ${text}`)
  return reply
}

/** Not the end of the server: a problem. */
export class UnexpectedReply extends Error {}

/** Large contents that can be distinguished. */
export class AttachmentActor implements Actor {
  readonly #path: string
  readonly #random: Random
  readonly #content = new Register('the attachment', 'none')
  #rev: string | undefined
  #count = 0

  constructor(database: string, random: Random) {
    this.#path = `/${database}/attached`
    this.#random = random
  }

  get acknowledgements(): number {
    return this.#content.acknowledgements
  }

  async work(client: Client): Promise<void> {
    const content = Buffer.alloc(1 + this.#random.below(300_000), `${++this.#count} `)
    this.#content.begin(digestOf(content))
    const query = this.#rev === undefined ? '' : `?rev=${this.#rev}`
    const headers = { 'Content-Type': this.#random.chance(0.5) ? 'text/plain' : 'image/png' }
    const reply = await must(client.request('PUT', `${this.#path}/file${query}`, { body: content, headers }), 201)
    this.#rev = reply.rev
    this.#content.acknowledge()
  }

  async check(client: Client): Promise<string[]> {
    const reply = await client.request('GET', `${this.#path}/file`)
    const document = await client.request('GET', this.#path)
    this.#rev = document.status === 200 ? document.as<{ _rev: string }>()._rev : undefined
    return this.#content.settle(
      reply.status === 404 ? 'none' : reply.status === 200 ? digestOf(reply.body) : `${reply.status} ${reply.text}`,
    )
  }
}

function digestOf(bytes: Buffer): string {
  return `${bytes.length} bytes ${createHash('sha256').update(bytes).digest('hex').slice(0, 12)}`
}

/** Settings of the server and of a database. */
export class SettingsActor implements Actor {
  readonly #database: string
  readonly #setting = new Register('the setting', '0')
  readonly #security = new Register('the security object', '0')
  readonly #limit = new Register('the revision limit', '1000')
  #count = 0

  constructor(database: string) {
    this.#database = database
  }

  get acknowledgements(): number {
    return this.#setting.acknowledgements + this.#security.acknowledgements + this.#limit.acknowledgements
  }

  async work(client: Client): Promise<void> {
    const value = String(++this.#count)
    this.#setting.begin(value)
    await must(client.request('PUT', '/_config/crash/count', { body: JSON.stringify(value) }), 200)
    this.#setting.acknowledge()
    this.#security.begin(value)
    await must(client.request('PUT', `/${this.#database}/_security`, { body: { count: value } }), 200)
    this.#security.acknowledge()
    const limit = String(1000 + this.#count)
    this.#limit.begin(limit)
    await must(client.request('PUT', `/${this.#database}/_revs_limit`, { body: limit }), 200)
    this.#limit.acknowledge()
  }

  async check(client: Client): Promise<string[]> {
    const setting = await client.request('GET', '/_config/crash/count')
    const security = (await client.request('GET', `/${this.#database}/_security`)).as<{ count?: string }>()
    const limit = (await client.request('GET', `/${this.#database}/_revs_limit`)).text.trim()
    return [
      ...this.#setting.settle(setting.status === 404 ? '0' : setting.as<string>()),
      ...this.#security.settle(security.count ?? '0'),
      ...this.#limit.settle(limit),
    ]
  }
}

/** A database that is deleted and created again, with one document that says which one it is. */
export class RecreatingActor implements Actor {
  readonly #name: string
  /** `none`: there is no database; `empty`: it has no document. */
  readonly #state = new Register('the database that comes and goes', 'none')
  #count = 0

  constructor(name: string) {
    this.#name = name
  }

  get acknowledgements(): number {
    return this.#state.acknowledgements
  }

  async work(client: Client): Promise<void> {
    if (this.#state.value === 'none') {
      await this.#step('empty', () => must(client.request('PUT', `/${this.#name}`), 201))
    }
    if (this.#state.value === 'empty') {
      const value = String(++this.#count)
      await this.#step(value, () => must(client.request('PUT', `/${this.#name}/${value}`, { body: {} }), 201))
    }
    await this.#step('none', () => must(client.request('DELETE', `/${this.#name}`), 200))
  }

  async #step(value: string, request: () => Promise<unknown>): Promise<void> {
    this.#state.begin(value)
    await request()
    this.#state.acknowledge()
  }

  async check(client: Client): Promise<string[]> {
    const reply = await client.request('GET', `/${this.#name}/_all_docs`)
    if (reply.status === 404) return this.#state.settle('none')
    const ids = reply.as<{ rows: { id: string }[] }>().rows.map(({ id }) => id)
    return this.#state.settle(ids.length === 0 ? 'empty' : ids.join())
  }
}

/** Documents that are written and then purged for good; indexes must not have them either. */
export class PurgingActor implements Actor {
  readonly #database: string
  readonly #state = new Register('the document that is purged', 'none')
  #rev = ''

  constructor(database: string) {
    this.#database = database
  }

  get acknowledgements(): number {
    return this.#state.acknowledgements
  }

  async work(client: Client): Promise<void> {
    const path = `/${this.#database}/purged`
    if (this.#state.value === 'none') {
      this.#state.begin('there')
      this.#rev = (await must(client.request('PUT', path, { body: { n: -1 } }), 201)).rev
      this.#state.acknowledge()
    }
    this.#state.begin('none')
    await must(client.request('POST', `/${this.#database}/_purge`, { body: { purged: [this.#rev] } }), 200, 201)
    this.#state.acknowledge()
  }

  async check(client: Client): Promise<string[]> {
    const reply = await client.request('GET', `/${this.#database}/purged`)
    if (reply.status === 200) this.#rev = reply.as<{ _rev: string }>()._rev
    const reason = reply.status === 404 ? reply.as<{ reason: string }>().reason : ''
    return this.#state.settle(
      reply.status === 200 ? 'there' : reason === 'missing' ? 'none' : `${reply.status} ${reply.text}`,
    )
  }
}

export const DESIGN = {
  views: { v: { map: 'function (doc) { if (doc.n !== undefined) emit(doc.n, doc._rev) }', reduce: '_count' } },
}

/** Documents, a view and a selector index over them: after a crash the indexes have what the database has. */
export class IndexActor implements Actor {
  readonly #database: string
  readonly #random: Random
  readonly #last = new Register('the last document', 0)

  constructor(database: string, random: Random) {
    this.#database = database
    this.#random = random
  }

  get acknowledgements(): number {
    return this.#last.acknowledgements
  }

  async work(client: Client): Promise<void> {
    const first = this.#last.value + 1
    const docs = Array.from({ length: 1 + this.#random.below(60) }, (_, i) => ({ _id: `i${first + i}`, n: first + i }))
    this.#last.begin(first + docs.length - 1)
    await must(client.request('POST', `/${this.#database}/_bulk_docs`, { body: { docs } }), 201)
    this.#last.acknowledge()
    if (this.#random.chance(0.4))
      await must(client.request('GET', `/${this.#database}/_design/d/_view/v?limit=1&reduce=false`), 200)
    if (this.#random.chance(0.4)) await must(this.#find(client, 1), 200)
  }

  #find(client: Client, limit: number): Promise<Reply> {
    const body = { selector: { n: { $gt: 0 } }, fields: ['_id', '_rev'], sort: ['n'], limit }
    return client.request('POST', `/${this.#database}/_find`, { body })
  }

  async check(client: Client, depth: CheckDepth): Promise<string[]> {
    const listing = await client.request('GET', `/${this.#database}/_all_docs?startkey="i"&endkey="j"`)
    const rows = listing.as<{ rows: { id: string; value: { rev: string } }[] }>().rows
    const byNumber = rows.toSorted((a, b) => Number(a.id.slice(1)) - Number(b.id.slice(1)))
    const written = byNumber.map(({ id, value }) => `${id} ${value.rev}`).join('\n')
    const problems = this.#last.settle(byNumber.length)
    if (depth === 'brief') return problems
    const view = await client.request('GET', `/${this.#database}/_design/d/_view/v?reduce=false&startkey=1`)
    const mapped = view.as<{ rows: { id: string; value: string }[] }>().rows.map(({ id, value }) => `${id} ${value}`)
    if (mapped.join('\n') !== written)
      problems.push(`The view has ${mapped.length} rows that are not the ${rows.length} documents.`)
    const found = (await this.#find(client, 1_000_000)).as<{ docs: { _id: string; _rev: string }[] }>().docs
    if (found.map(({ _id, _rev }) => `${_id} ${_rev}`).join('\n') !== written) {
      problems.push(`The selector index has ${found.length} rows that are not the ${rows.length} documents.`)
    }
    return problems
  }
}

/** Replicates a database into a copy, over and over: in the end both are the same. */
export class ReplicatingActor implements Actor {
  readonly #source: string
  readonly #target: string
  acknowledgements = 0

  constructor(source: string, target: string) {
    this.#source = source
    this.#target = target
  }

  async work(client: Client): Promise<void> {
    await this.#replicate(client)
    this.acknowledgements++
  }

  async check(client: Client, depth: CheckDepth): Promise<string[]> {
    if (depth === 'brief') return []
    const known = await this.#revisions(client, this.#source)
    // What the copy has, the source has made, purged documents aside.
    const invented = [...(await this.#revisions(client, this.#target))].filter(
      ([id, revs]) => id !== 'purged' && id.startsWith('i') && !known.has(id) && revs !== '',
    )
    if (invented.length > 0) return [`The copy has ${invented[0]}, which its source does not have.`]
    await this.#replicate(client)
    const copy = await this.#revisions(client, this.#target)
    const lost = [...known].filter(([id, revs]) => id !== 'purged' && copy.get(id) !== revs)
    return lost.length === 0 ? [] : [`The copy has ${copy.get(lost[0]![0])} and not ${lost[0]} after a replication.`]
  }

  async #replicate(client: Client): Promise<void> {
    await must(client.request('POST', '/_replicate', { body: { source: this.#source, target: this.#target } }), 200)
  }

  async #revisions(client: Client, database: string): Promise<Map<string, string>> {
    const reply = await client.request('GET', `/${database}/_changes?style=all_docs`)
    const { results } = reply.as<{ results: { id: string; changes: { rev: string }[] }[] }>()
    return new Map(
      results.map(({ id, changes }) => [
        id,
        changes
          .map(({ rev }) => rev)
          .sort()
          .join(),
      ]),
    )
  }
}

/** Compacts databases and their indexes. */
export class CompactingActor implements Actor {
  readonly #databases: readonly string[]
  acknowledgements = 0

  constructor(databases: readonly string[]) {
    this.#databases = databases
  }

  async work(client: Client): Promise<void> {
    for (const name of this.#databases) {
      for (const path of ['_compact', '_compact/d', '_view_cleanup']) {
        // Databases without that design document have no index.
        await must(client.request('POST', `/${name}/${path}`, { body: '' }), 202, 404)
        this.acknowledgements++
      }
    }
  }

  async check(): Promise<string[]> {
    return []
  }
}
