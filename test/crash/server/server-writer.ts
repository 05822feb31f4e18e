/**
 * One client that writes, a request at a time, for as long as the server lives: new documents, updates, deletions,
 * many at once, conflicts, revisions of other servers, local documents, writes to be done later. It knows the revision
 * that each write must get, and keeps a ledger of what it was promised.
 */
import { createHash } from 'node:crypto'
import { formatRevision, generationOf, hashOf, type RevisionId } from '../../../src/document/ids.ts'
import { newRevision } from '../../../src/document/revisions/new-revision.ts'
import { scanDocument } from '../../../src/encoding/json/json-text.ts'
import type { Client, Reply } from '../../support/client.ts'
import type { Random } from '../random.ts'
import { type DocumentStep, type Leaf, Ledger, type Step } from './server-ledger.ts'

/** A request, what it does, and what must be said to it. */
interface Order {
  readonly method: string
  readonly path: string
  readonly body?: unknown
  readonly step: Step
  readonly status: number
  /** Of the documents in the reply, in order; `conflict` where one is refused. */
  readonly answers?: readonly string[]
  /** `later`: promises nothing yet. `flush`: promises all that was to come later. */
  readonly kind?: 'later' | 'flush'
}

const LARGE_BYTES = 20_000
const LOCAL_IDS = 3
const UNKNOWN_REVISION = '1-00000000000000000000000000000000'

export class ServerWriter {
  readonly ledger: Ledger
  readonly #name: string
  readonly #database: string
  readonly #random: Random
  #written = 0
  #acknowledged = 0
  #problems: string[] = []

  constructor(name: string, database: string, random: Random) {
    this.#name = name
    this.#database = database
    this.#random = random
    this.ledger = new Ledger(`${name}-`)
  }

  get database(): string {
    return this.#database
  }

  get acknowledged(): number {
    return this.#acknowledged
  }

  /** Answers that were wrong, in sentences. */
  get problems(): readonly string[] {
    return this.#problems
  }

  /** Writes until the connection breaks or an answer is wrong. */
  async write(client: Client): Promise<void> {
    while (this.#problems.length === 0) {
      const order = this.#nextOrder()
      if (order.kind === 'later') this.ledger.later(order.step)
      else this.ledger.begin(order.step)
      let reply: Reply
      try {
        reply = await client.request(order.method, `/${this.#database}/${order.path}`, {
          body: order.body,
          headers: { 'Content-Type': 'application/json' },
        })
      } catch {
        return
      }
      const wrong = wrongIn(order, reply)
      if (wrong) this.#problems.push(`${order.method} ${order.path}: ${wrong}`)
      else if (order.kind === 'flush') this.ledger.flushed()
      else if (order.kind !== 'later') this.ledger.acknowledged()
      this.#acknowledged++
    }
  }

  #nextOrder(): Order {
    const chance = this.#random.next()
    if (chance < 0.25) return this.#put(this.#creation())
    if (chance < 0.45) return this.#put(this.#update() ?? this.#creation())
    if (chance < 0.55) return this.#deletion() ?? this.#put(this.#creation())
    if (chance < 0.75) return this.#bulk()
    if (chance < 0.85) return this.#replicated()
    if (chance < 0.93) return this.#local()
    if (chance < 0.98) return this.#batched()
    return { method: 'POST', path: '_ensure_full_commit', step: NOTHING, status: 201, kind: 'flush' }
  }

  #put(step: DocumentStep): Order {
    const body = { ...(step.ends && { _rev: step.ends }), ...JSON.parse(step.leaf.text) }
    return { method: 'PUT', path: step.id, body, step: only(step), status: 201, answers: [step.begins] }
  }

  #deletion(): Order | undefined {
    const found = this.#pickLeaf((leaf) => !leaf.deleted)
    if (!found) return undefined
    const step = stepOn(found.id, found.revision, { deleted: true, text: '{}' })
    return {
      method: 'DELETE',
      path: `${found.id}?rev=${found.revision}`,
      step: only(step),
      status: 200,
      answers: [step.begins],
    }
  }

  /** Some of them refused: they name a revision that is not there. */
  #bulk(): Order {
    const steps = new Map<string, DocumentStep | 'conflict'>()
    for (let left = 2 + this.#random.below(7); left > 0; left--) {
      const chance = this.#random.next()
      const step = chance < 0.4 ? this.#creation() : (this.#update({ mayDelete: true }) ?? this.#creation())
      if (!steps.has(step.id)) steps.set(step.id, chance > 0.85 && step.ends ? 'conflict' : step)
    }
    const docs = [...steps].map(([_id, step]) =>
      step === 'conflict'
        ? { _id, _rev: UNKNOWN_REVISION, conflicting: true }
        : {
            _id,
            ...(step.ends && { _rev: step.ends }),
            ...(step.leaf.deleted && { _deleted: true }),
            ...JSON.parse(step.leaf.text),
          },
    )
    return {
      method: 'POST',
      path: '_bulk_docs',
      body: { docs },
      step: { documents: [...steps.values()].filter((step) => step !== 'conflict'), locals: [] },
      status: 201,
      answers: [...steps.values()].map((step) => (step === 'conflict' ? 'conflict' : step.begins)),
    }
  }

  /** As another server would bring them: some go on from a leaf, some are a branch of their own. */
  #replicated(): Order {
    const steps = new Map<string, DocumentStep>()
    for (let left = 1 + this.#random.below(5); left > 0; left--) {
      const leaf = this.#leaf({ mayDelete: true })
      const hash = createHash('md5').update(leaf.text).digest('hex')
      const found = this.#random.chance(0.7) ? this.#pickLeaf(() => true) : undefined
      const id = found?.id ?? this.#newId()
      const ends = found && this.#random.chance(0.5) ? found.revision : undefined
      const generation = ends ? generationOf(ends) + 1 : 1 + this.#random.below(4)
      steps.set(id, { id, ends, begins: formatRevision(generation, hash), leaf })
    }
    const docs = [...steps.values()].map(({ id, ends, begins, leaf }) => ({
      _id: id,
      _revisions: { start: generationOf(begins), ids: [hashOf(begins), ...(ends ? [hashOf(ends)] : [])] },
      ...(leaf.deleted && { _deleted: true }),
      ...JSON.parse(leaf.text),
    }))
    return {
      method: 'POST',
      path: '_bulk_docs',
      body: { new_edits: false, docs },
      step: { documents: [...steps.values()], locals: [] },
      status: 201,
    }
  }

  #local(): Order {
    const id = `_local/${this.#name}-${this.#random.below(LOCAL_IDS)}`
    const current = this.ledger.local(id)
    if (current && this.#random.chance(0.2)) {
      const step = { documents: [], locals: [{ id, document: undefined }] }
      return { method: 'DELETE', path: `${id}?rev=0-${current.count}`, step, status: 200, answers: ['0-0'] }
    }
    const document = { count: (current?.count ?? 0) + 1, text: this.#text() }
    const body = { ...(current && { _rev: `0-${current.count}` }), ...JSON.parse(document.text) }
    const step = { documents: [], locals: [{ id, document }] }
    return { method: 'PUT', path: id, body, step, status: 201, answers: [`0-${document.count}`] }
  }

  #batched(): Order {
    const step = this.#creation()
    return {
      method: 'PUT',
      path: `${step.id}?batch=ok`,
      body: JSON.parse(step.leaf.text),
      step: only(step),
      status: 202,
      kind: 'later',
    }
  }

  #creation(): DocumentStep {
    return stepOn(this.#newId(), undefined, this.#leaf({ mayDelete: false }))
  }

  /** Of any leaf: of one that lost as well as of the winner, and of tombstones. */
  #update({ mayDelete = false } = {}): DocumentStep | undefined {
    const found = this.#pickLeaf(() => true)
    return found && stepOn(found.id, found.revision, this.#leaf({ mayDelete }))
  }

  #pickLeaf(wanted: (leaf: Leaf) => boolean): { id: string; revision: RevisionId } | undefined {
    const ids = [...this.ledger.documents.keys()]
    if (ids.length === 0) return undefined
    const id = ids[this.#random.below(ids.length)]!
    const leaves = [...this.ledger.documents.get(id)!].filter(([, leaf]) => wanted(leaf))
    if (leaves.length === 0) return undefined
    return { id, revision: leaves[this.#random.below(leaves.length)]![0] }
  }

  #leaf({ mayDelete }: { mayDelete: boolean }): Leaf {
    return { deleted: mayDelete && this.#random.chance(0.2), text: this.#text() }
  }

  /** No two are the same. */
  #text(): string {
    const padding = this.#random.chance(0.03) ? LARGE_BYTES : this.#random.below(600)
    return JSON.stringify({ writer: this.#name, n: ++this.#written, padding: 'x'.repeat(padding) })
  }

  /** Scattered, so that the rank tree is changed all over. */
  #newId(): string {
    return `${this.#name}-${createHash('md5')
      .update(`${++this.#written}`)
      .digest('hex')
      .slice(0, 12)}`
  }
}

const NOTHING: Step = { documents: [], locals: [] }

function only(step: DocumentStep): Step {
  return { documents: [step], locals: [] }
}

/** A revision of this server's making. */
function stepOn(id: string, ends: RevisionId | undefined, leaf: Leaf): DocumentStep {
  const { term } = scanDocument(Buffer.from(leaf.text))
  return { id, ends, begins: newRevision(ends, { deleted: leaf.deleted, term, attachments: [] }), leaf }
}

function wrongIn({ status, answers }: Order, reply: Reply): string | undefined {
  if (reply.status !== status) return `${reply.status} ${reply.text}`
  if (!answers) return undefined
  const said = [reply.as<Said | Said[]>()].flat().map(({ rev, error }) => rev ?? error)
  return said.join() === answers.join() ? undefined : `${reply.text} and not ${answers}`
}

interface Said {
  readonly rev?: string
  readonly error?: string
}
