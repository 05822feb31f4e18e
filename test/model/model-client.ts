/** A client of the model test: takes steps one after the other and notes what it did and saw of each document. */
import type { Reply, TestDatabase } from '../support/client.ts'
import type { Change } from '../support/feed.ts'
import type { Act, Leaves, Noted } from './document-history.ts'

export const IDS = ['a', 'b', 'c']
export const VIEW = '_design/d/_view/v'

export type Step =
  | { readonly do: 'put' | 'remove' | 'attach'; readonly id: number; readonly parent: 'known' | 'old' | 'none' }
  | { readonly do: 'bulk'; readonly ids: readonly number[] }
  | { readonly do: 'graft' | 'purge' | 'read'; readonly id: number }
  | { readonly do: 'view' | 'find' | 'all_docs' | 'changes' | 'compact' | 'secure' | 'security' }

/** What a planted bug makes of the truth. */
export interface Tampering {
  /** Of a reading, before it is noted. */
  readonly reading?: (seen: string | undefined, id: string) => string | undefined
  /** Of an edit that was refused: a revision as if it had been taken. */
  readonly refused?: (id: string) => string | undefined
  readonly change?: (change: Change) => Change | undefined
  /** Of the number of rows that a view counts. */
  readonly count?: (count: number) => number
  /** Of the number in a security object that was read. */
  readonly security?: (read: number) => number
}

/** What is known of a revision that was written. */
export interface Content {
  readonly n: number
  readonly attachment: string | undefined
}

/** Shared by the clients of one run. */
export class Notes {
  readonly documents = new Map<string, Noted[]>(IDS.map((id) => [id, []]))
  readonly security: { client: number; startedAt: number; endedAt: number; wrote?: number; read?: number }[] = []
  readonly contents = new Map<string, Content>()
  #count = 0

  /** Never the same. */
  nextNumber(): number {
    return ++this.#count
  }
}

export class ModelClient {
  readonly #db: TestDatabase
  readonly #client: number
  readonly #notes: Notes
  readonly #tampering: Tampering
  /** Revisions of each document that this client knows, oldest first. */
  readonly #known = new Map<string, string[]>()

  constructor(db: TestDatabase, client: number, notes: Notes, tampering: Tampering) {
    this.#db = db
    this.#client = client
    this.#notes = notes
    this.#tampering = tampering
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) await this.#take(step)
  }

  async #take(step: Step): Promise<void> {
    switch (step.do) {
      case 'put':
      case 'remove':
      case 'attach':
        return this.#edit(step.do, IDS[step.id]!, step.parent)
      case 'bulk':
        return this.#bulk(step.ids.map((id) => IDS[id]!))
      case 'graft':
        return this.#graft(IDS[step.id]!)
      case 'purge':
        return this.#purge(IDS[step.id]!)
      case 'read':
        return this.readLeaves(IDS[step.id]!)
      case 'compact':
        await this.#db.post('_compact', '')
        return
      case 'secure':
      case 'security':
        return this.#security(step.do)
      default:
        return this.#readAll(step.do)
    }
  }

  /** Notes for each document what happened between the start and now. */
  async #noted(work: () => Promise<Map<string, Act>>): Promise<void> {
    const startedAt = performance.now()
    const acts = await work()
    const endedAt = performance.now()
    for (const [id, act] of acts) {
      const told = `client ${this.#client}: ${JSON.stringify(act, (_, value) => (value instanceof Map ? [...value] : value))}`
      this.#notes.documents.get(id)?.push({ client: this.#client, startedAt, endedAt, told, act })
    }
  }

  #parent(id: string, which: 'known' | 'old' | 'none'): string | undefined {
    const known = this.#known.get(id) ?? []
    return which === 'none' ? undefined : ((which === 'known' ? known.at(-1) : known.at(-2)) ?? known.at(-1))
  }

  #learn(id: string, rev: string): void {
    this.#known.set(id, [...(this.#known.get(id) ?? []).slice(-3), rev])
  }

  #edit(wanted: 'put' | 'remove' | 'attach', id: string, which: 'known' | 'old' | 'none'): Promise<void> {
    const parent = this.#parent(id, which)
    // A document that begins with an attachment has no number, by which it is found.
    const kind = wanted === 'attach' && parent === undefined ? 'put' : wanted
    const n = this.#notes.nextNumber()
    const deleted = kind === 'remove'
    return this.#noted(async () => {
      const reply = await this.#send(kind, id, parent, n)
      if (reply.status !== 409 && reply.status >= 300) throw new Error(`${kind} ${id}: ${reply.status} ${reply.text}`)
      const rev = reply.status === 409 ? this.#tampering.refused?.(id) : reply.rev
      if (rev !== undefined) this.#written(id, rev, this.#contentOf(kind, parent, n))
      return new Map([[id, { kind: 'edit', parent, deleted, rev }]])
    })
  }

  #contentOf(kind: string, parent: string | undefined, n: number): Content {
    if (kind !== 'attach') return { n, attachment: undefined }
    return { n: this.#notes.contents.get(parent ?? '')?.n ?? 0, attachment: `content ${n}` }
  }

  #send(kind: string, id: string, parent: string | undefined, n: number): Promise<Reply> {
    const query = parent === undefined ? '' : `?rev=${parent}`
    if (kind === 'attach') return this.#db.put(`${id}/file${query}`, `content ${n}`, { 'Content-Type': 'text/plain' })
    return this.#db.put(`${id}${query}`, { n, kind: 'model', ...(kind === 'remove' && { _deleted: true }) })
  }

  #written(id: string, rev: string, content: Content): void {
    this.#notes.contents.set(rev, content)
    this.#learn(id, rev)
  }

  #bulk(ids: readonly string[]): Promise<void> {
    const docs = ids.map((id) => ({ id, parent: this.#parent(id, 'known'), n: this.#notes.nextNumber() }))
    return this.#noted(async () => {
      const reply = await this.#db.post('_bulk_docs', {
        docs: docs.map(({ id, parent, n }) => ({ _id: id, ...(parent && { _rev: parent }), n, kind: 'model' })),
      })
      const entries = reply.as<{ id: string; rev?: string; error?: string }[]>()
      return new Map(
        docs.map(({ id, parent, n }, i): [string, Act] => {
          const { rev, error } = entries[i] ?? {}
          if (rev === undefined && error !== 'conflict') throw new Error(`bulk ${id}: ${reply.text}`)
          if (rev !== undefined) this.#written(id, rev, { n, attachment: undefined })
          return [id, { kind: 'edit', parent, deleted: false, rev }]
        }),
      )
    })
  }

  #graft(id: string): Promise<void> {
    const n = this.#notes.nextNumber()
    const rev = `1-${n.toString(16).padStart(32, '0')}`
    return this.#noted(async () => {
      await this.#db.replicate({ _id: id, _rev: rev, n, kind: 'model' })
      this.#written(id, rev, { n, attachment: undefined })
      return new Map([[id, { kind: 'graft', rev }]])
    })
  }

  #purge(id: string): Promise<void> {
    const rev = this.#parent(id, 'known')
    if (rev === undefined) return Promise.resolve()
    return this.#noted(async () => {
      const reply = await this.#db.post('_purge', { [id]: [rev] })
      if (reply.status !== 200 && reply.status !== 201) throw new Error(`purge: ${reply.status} ${reply.text}`)
      const { purged } = reply.as<{ purged: Record<string, string[]> }>()
      return new Map([[id, { kind: 'purge', rev, isPurged: purged[id]?.includes(rev) ?? false }]])
    })
  }

  readLeaves(id: string): Promise<void> {
    return this.#noted(async () => {
      const reply = await this.#db.get(`${id}?open_revs=all`, { Accept: 'application/json' })
      const seen = new Map<string, boolean>()
      if (reply.status === 200) {
        for (const { ok } of reply.as<{ ok: { _rev: string; _deleted?: true } }[]>()) {
          seen.set(ok._rev, ok._deleted ?? false)
          if (!ok._deleted) this.#learn(id, ok._rev)
        }
      } else if (reply.status !== 404) throw new Error(`${reply.status} ${reply.text}`)
      return new Map([[id, { kind: 'leaves', seen }]])
    })
  }

  #readAll(how: 'view' | 'find' | 'all_docs' | 'changes'): Promise<void> {
    return this.#noted(async () => {
      if (how === 'changes') return this.#readChanges()
      const visible = await (how === 'view' ? this.#viewRows() : how === 'find' ? this.#foundRows() : this.#allRows())
      return new Map(
        IDS.map((id): [string, Act] => {
          const truth = visible.get(id)
          return [id, { kind: 'visible', seen: this.#tampering.reading ? this.#tampering.reading(truth, id) : truth }]
        }),
      )
    })
  }

  async #viewRows(): Promise<Map<string, string>> {
    const { rows } = (await this.#db.get(VIEW)).as<{ rows: { id: string; value: string }[] }>()
    return new Map(rows.map(({ id, value }) => [id, value]))
  }

  async #foundRows(): Promise<Map<string, string>> {
    const reply = await this.#db.post('_find', { selector: { n: { $gte: 0 } }, fields: ['_id', '_rev'] })
    const { docs } = reply.as<{ docs: { _id: string; _rev: string }[] }>()
    return new Map(docs.map(({ _id, _rev }) => [_id, _rev]))
  }

  async #allRows(): Promise<Map<string, string>> {
    const { rows } = (await this.#db.get('_all_docs')).as<{ rows: { id: string; value: { rev: string } }[] }>()
    return new Map(rows.map(({ id, value }) => [id, value.rev]))
  }

  /** The winner comes first. */
  async #readChanges(): Promise<Map<string, Act>> {
    const { results } = (await this.#db.get('_changes')).as<{ results: Change[] }>()
    const visible = new Map(results.filter(({ deleted }) => !deleted).map(({ id, changes }) => [id, changes[0]?.rev]))
    return new Map(IDS.map((id) => [id, { kind: 'visible', seen: visible.get(id) }]))
  }

  async #security(what: 'secure' | 'security'): Promise<void> {
    const startedAt = performance.now()
    if (what === 'secure') {
      const wrote = this.#notes.nextNumber()
      const reply = await this.#db.put('_security', { members: { names: [], roles: [] }, n: wrote })
      if (reply.status !== 200) throw new Error(reply.text)
      this.#notes.security.push({ client: this.#client, startedAt, endedAt: performance.now(), wrote })
    } else {
      const seen = (await this.#db.get('_security')).as<{ n?: number }>().n ?? 0
      const read = this.#tampering.security?.(seen) ?? seen
      this.#notes.security.push({ client: this.#client, startedAt, endedAt: performance.now(), read })
    }
  }
}

/** Leaves of a document as one reading of the feed has them. */
export function leavesOfChange({ changes, deleted }: Change): Leaves {
  return new Map(changes.map(({ rev }) => [rev, deleted ?? false]))
}
