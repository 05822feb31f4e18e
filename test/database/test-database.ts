/** Databases for tests of this folder: on either engine, with edits that are easily written down. */
import { Database } from '../../src/database/database.ts'
import type { DatabaseServices } from '../../src/database/database-services.ts'
import type { EditOutcome, LocalEdit, NewRevisionEdit, ReplicatedEdit } from '../../src/database/writing/edit.ts'
import { parseRevision, type RevisionId, type RevisionPath } from '../../src/document/ids.ts'
import { EMPTY_BODY_TERM } from '../../src/document/revisions/new-revision.ts'
import { scanDocument } from '../../src/encoding/json/json-text.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Log, silentLog } from '../../src/runtime/log/log.ts'
import { TaskRegistry } from '../../src/runtime/tasks.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import type { Store } from '../../src/storage/store.ts'

export function surroundings(log: Log = silentLog): DatabaseServices {
  return { clock: systemClock, log, tasks: new TaskRegistry(systemClock) }
}

/** A new database in memory, with what lies under it. */
export async function memoryDatabase(): Promise<{ database: Database; store: Store; engine: MemoryEngine }> {
  const engine = new MemoryEngine()
  const store = await engine.create('test')
  return { database: await Database.create(store, surroundings()), store, engine }
}

export interface PutOptions {
  readonly parent?: string | undefined
  readonly deleted?: boolean
  readonly branching?: boolean
}

/** A new revision with these members. */
export function put(
  id: string,
  members: object,
  { parent, deleted = false, branching = false }: PutOptions = {},
): NewRevisionEdit {
  const { body, term } = scanDocument(Buffer.from(JSON.stringify(members)))
  const kind = branching ? 'branching' : 'interactive'
  return { kind, id, parent: parent === undefined ? undefined : parseRevision(parent), deleted, body, term }
}

export function remove(id: string, parent: string): NewRevisionEdit {
  const body = Buffer.from('{}')
  return { kind: 'interactive', id, parent: parseRevision(parent), deleted: true, body, term: EMPTY_BODY_TERM }
}

/** A revision of another server. */
export function replicated(id: string, path: RevisionPath, members: object, deleted = false): ReplicatedEdit {
  return { kind: 'replicated', id, path, deleted, body: Buffer.from(JSON.stringify(members)) }
}

export function local(
  id: string,
  members: object,
  { parent, deleted = false }: Omit<PutOptions, 'branching'> = {},
): LocalEdit {
  const body = Buffer.from(JSON.stringify(members))
  return { kind: 'local', id, parent: parent === undefined ? undefined : parseRevision(parent), deleted, body }
}

/** The revisions of writes that must all succeed. */
export async function written(writing: Promise<readonly EditOutcome[]>): Promise<RevisionId[]> {
  return (await writing).map((outcome) => {
    if (outcome.outcome === 'refused') throw outcome.error
    return outcome.revision
  })
}
