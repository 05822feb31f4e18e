/** Attachments of a database that several servers have open: two of them over one store in memory. */
import { expect, it } from 'vitest'
import { Database } from '../../../src/database/database.ts'
import type { ReplicatedEdit } from '../../../src/database/writing/edit.ts'
import { hashOf, type RevisionId } from '../../../src/document/ids.ts'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import type { Changes, CommitOutcome, Store } from '../../../src/storage/store.ts'
import { put, replicated, surroundings, written } from '../test-database.ts'

const HASH = 'a'.repeat(32)

interface Hooks {
  /** Before the commit that removes the bytes of attachments. */
  beforeRemoval?: () => Promise<void>
}

/** The store as one of several servers has it. All numbers are old enough to be removed. */
function shared(store: Store, numbers: { last: number }, hooks: Hooks = {}): Store {
  return {
    name: store.name,
    dropped: false,
    keepsValues: store.keepsValues,
    givesCopies: store.givesCopies,
    sharing: {
      watch: () => () => {},
      confirm: async () => {},
      nextNumber: async () => ++numbers.last,
      settledBelow: async () => Number.MAX_SAFE_INTEGER,
    },
    snapshot: () => store.snapshot(),
    commit: async (changes: Changes): Promise<CommitOutcome> => {
      const { beforeRemoval } = hooks
      if (beforeRemoval && (changes.clears?.length ?? 0) > 0) {
        delete hooks.beforeRemoval
        await beforeRemoval()
      }
      return store.commit(changes)
    },
    replace: (portions, lease) => store.replace(portions, lease),
    compact: () => store.compact(),
    sizes: () => store.sizes(),
    isEmpty: () => store.isEmpty(),
  }
}

/** A document whose first revision has an attachment that the second one has not. */
async function twoServers(hooks: Hooks = {}): Promise<{ a: Database; b: Database; first: RevisionId }> {
  const store = await new MemoryEngine().create('test')
  const numbers = { last: 0 }
  const a = await Database.create(shared(store, numbers, hooks), surroundings())
  const b = await Database.open(shared(store, numbers), surroundings())
  const { content, puts, release } = await a.attachments.stageWhole(Buffer.from('the bytes'))
  const attachment = { ...content, name: 'a', contentType: 'text/plain', revpos: undefined, puts }
  const [first] = await written(a.write([{ ...put('document', {}), attachments: [attachment] }]))
  release()
  await written(a.write([put('document', { n: 2 }, { parent: first! })]))
  return { a, b, first: first! }
}

/** A revision of another server whose stub refers to the attachment of the first one. */
async function stubEdit(database: Database, first: RevisionId): Promise<ReplicatedEdit> {
  using view = database.view()
  const record = await view.record('document')
  const { body } = (await view.tree('document', record!)).find(first)!
  const { attachments } = await view.body(body)
  expect(await database.attachments.keep(attachments[0]!)).toBeDefined()
  const path = { start: 2, hashes: [HASH, hashOf(first)] }
  return { ...replicated('document', path, {}), attachments: [{ ...attachments[0]!, puts: [] }] }
}

async function compact(database: Database): Promise<void> {
  database.compact()
  await database.compacted()
}

it('refuses a stub whose bytes another server removed since it was looked up', async () => {
  const { a, b, first } = await twoServers()
  const edit = await stubEdit(b, first)
  await compact(a)
  await expect(written(b.write([edit]))).rejects.toMatchObject({ error: 'missing_stub' })
  await written(b.write([put('another', {})]))
})

it('keeps the bytes that a revision of another server refers to since compaction looked', async () => {
  const hooks: Hooks = {}
  const { a, b, first } = await twoServers(hooks)
  const edit = await stubEdit(b, first)
  hooks.beforeRemoval = async () => void (await written(b.write([edit])))
  await compact(a)
  expect(hooks.beforeRemoval).toBeUndefined()
  const pieces = await Array.fromAsync(b.attachments.read(edit.attachments![0]!))
  expect(Buffer.concat(pieces).toString()).toBe('the bytes')
})

it('removes bytes that no revision refers to', async () => {
  const { a, b, first } = await twoServers()
  const edit = await stubEdit(b, first)
  await compact(a)
  await expect(Array.fromAsync(b.attachments.read(edit.attachments![0]!))).rejects.toThrow('is missing')
})
