/** Edits of every kind, in any order, against a model of what each of them must do. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Client, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

type Operation = 'put' | 'post' | 'bulk' | 'delete' | 'put-deleted' | 'copy'
type Parent = 'none' | 'current' | 'old' | 'never'

interface Step {
  operation: Operation
  parent: Parent
  id: string
  n: number
}

interface Known {
  /** Oldest first. */
  revs: string[]
  deleted: boolean
  n: number | undefined
}

const IDS = ['a', 'b', 'c']

const step: fc.Arbitrary<Step> = fc.record({
  operation: fc.constantFrom<Operation>('put', 'post', 'bulk', 'delete', 'put-deleted', 'copy'),
  parent: fc.constantFrom<Parent>('none', 'current', 'current', 'current', 'old', 'never'),
  id: fc.constantFrom(...IDS),
  n: fc.nat({ max: 5 }),
})

/** What the documents must be, by the rules alone. */
class Model {
  readonly documents = new Map<string, Known>()
  sequence = 1

  parentOf(id: string, parent: Parent): string | undefined {
    const revs = this.documents.get(id)?.revs ?? []
    if (parent === 'none') return undefined
    const rev = parent === 'current' ? revs.at(-1) : parent === 'old' ? revs.at(-2) : undefined
    return rev ?? '7-00000000000000000000000000000000'
  }

  expected({ operation, id }: Step, rev: string | undefined): 'stored' | 'conflict' | 'missing' | 'deleted' {
    const known = this.documents.get(id)
    if (operation === 'delete' && known === undefined) return 'missing'
    if (operation === 'delete' && known?.deleted) return 'deleted'
    if (known === undefined) return rev === undefined ? 'stored' : 'conflict'
    if (rev !== undefined) return rev === known.revs.at(-1) ? 'stored' : 'conflict'
    return known.deleted && operation !== 'put-deleted' && operation !== 'delete' ? 'stored' : 'conflict'
  }

  store({ operation, id, n }: Step, rev: string): void {
    const known = this.documents.get(id) ?? { revs: [], deleted: false, n: undefined }
    known.revs.push(rev)
    known.deleted = operation === 'delete' || operation === 'put-deleted'
    known.n = operation === 'delete' ? undefined : operation === 'copy' ? 77 : n
    this.documents.set(id, known)
    this.sequence++
  }

  count(deleted: boolean): number {
    return [...this.documents.values()].filter((known) => known.deleted === deleted).length
  }
}

async function perform(db: TestDatabase, { operation, id, n }: Step, rev: string | undefined) {
  const members = { ...(rev === undefined ? {} : { _rev: rev }), n }
  const query = rev === undefined ? '' : `?rev=${rev}`
  if (operation === 'post') return db.post('', { _id: id, ...members })
  if (operation === 'delete') return db.delete(`${id}${query}`)
  if (operation === 'put-deleted') return db.put(id, { ...members, _deleted: true })
  if (operation === 'copy') return db.copy('source', `${id}${query}`)
  return db.put(id, members)
}

/** The status of the reply, or what it would be of an entry in bulk, and the revision where there is one. */
async function outcome(
  db: TestDatabase,
  step: Step,
  rev: string | undefined,
): Promise<{ status: number; rev: string }> {
  if (step.operation === 'bulk') {
    const doc = { _id: step.id, ...(rev === undefined ? {} : { _rev: rev }), n: step.n }
    const [entry] = (await db.post('_bulk_docs', { docs: [doc] })).as<{ rev?: string }[]>()
    return entry?.rev === undefined ? { status: 409, rev: '' } : { status: 201, rev: entry.rev }
  }
  const reply = await perform(db, step, rev)
  return { status: reply.status, rev: reply.status < 300 ? reply.rev : '' }
}

function statusOf({ operation }: Step, expected: 'stored' | 'conflict' | 'missing' | 'deleted'): number {
  if (expected === 'conflict') return 409
  if (expected !== 'stored') return 404
  return operation === 'delete' || operation === 'put-deleted' ? 200 : 201
}

async function run(db: TestDatabase, steps: Step[]): Promise<void> {
  const model = new Model()
  await db.save('source', { n: 77 })
  for (const one of steps) {
    const rev = model.parentOf(one.id, one.parent)
    const expected = model.expected(one, rev)
    const result = await outcome(db, one, rev)
    expect(result.status, `${JSON.stringify(one)} on ${rev}`).toBe(statusOf(one, expected))
    if (expected !== 'stored') continue
    const generation = (model.documents.get(one.id)?.revs.length ?? 0) + 1
    expect(result.rev).toMatch(new RegExp(`^${generation}-[0-9a-f]{32}$`))
    model.store(one, result.rev)
  }
  await compare(db, model)
}

async function compare(db: TestDatabase, model: Model): Promise<void> {
  expect(await db.info()).toMatchObject({
    doc_count: model.count(false) + 1,
    doc_del_count: model.count(true),
    update_seq: model.sequence,
  })
  for (const id of IDS) {
    const known = model.documents.get(id)
    const reply = await db.get(`${id}?revs=true&conflicts=true&deleted_conflicts=true`)
    if (known === undefined) {
      expect([reply.status, reply.json]).toMatchObject([404, { reason: 'missing' }])
    } else if (known.deleted) {
      expect([reply.status, reply.json]).toMatchObject([404, { reason: 'deleted' }])
    } else {
      const ids = known.revs.map((rev) => rev.slice(rev.indexOf('-') + 1)).reverse()
      const _revisions = { start: ids.length, ids }
      expect(reply.json).toEqual({ _id: id, _rev: known.revs.at(-1), n: known.n, _revisions })
    }
  }
}

describe('edits of a few documents', () => {
  it('do what the rules say, in any order', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => run(await client().database(), steps)),
      { numRuns: 60 },
    )
  })

  it('do the same on disk', async () => {
    const { url } = await startService()
    const onDisk = new Client(url)
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => run(await onDisk.database(), steps)),
      { numRuns: 10 },
    )
    onDisk.close()
  })
})
