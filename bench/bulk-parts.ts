/**
 * `npm run bench:bulk-parts`: where the time of a `_bulk_docs` request of 1,000 new documents goes, part by part, in one process
 * and without a socket. The least of many rounds: what it takes where nothing else disturbs it.
 */
import { hash, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INITIAL_STATE } from '../src/database/layout/keys.ts'
import type { NewRevisionEdit } from '../src/database/writing/edit.ts'
import { planBatch } from '../src/database/writing/edit-batch.ts'
import type { SentDocument } from '../src/document/document-fields.ts'
import { joinedText } from '../src/http/bodies/joined-text.ts'
import { bulkRequestIn } from '../src/scan/json-body.ts'
import { LmdbEngine } from '../src/storage/lmdb/lmdb-engine.ts'
import { RankTree } from '../src/storage/rank-tree/rank-tree.ts'
import { freeRows } from '../src/storage/rows/packed-rows.ts'
import { bulkBody } from './sample-documents.ts'

const DOCUMENTS = 1000
const DOCUMENT_BYTES = Number(process.argv[2] ?? 300)
const ROUNDS = 300
/** Until V8 has compiled what is used. */
const WARM_UP_ROUNDS = 100

const leastMs = new Map<string, number>()

function note(part: string, beganMs: number, round: number): number {
  const now = performance.now()
  if (round >= WARM_UP_ROUNDS) leastMs.set(part, Math.min(leastMs.get(part) ?? Number.POSITIVE_INFINITY, now - beganMs))
  return now
}

const folder = await mkdtemp(join(tmpdir(), 'settle-bench-'))
const engine = await LmdbEngine.open({ folder })
try {
  const store = await engine.create('bulk')
  const ranks = new RankTree({ rowPrefix: Buffer.from('d'), nodePrefix: Buffer.from('r'), salt: randomBytes(8) })
  const term = Buffer.alloc(DOCUMENT_BYTES + 120, 0x61)
  let state = INITIAL_STATE
  for (let round = 0; round < ROUNDS; round++) {
    let at = performance.now()
    for (let i = 0; i < DOCUMENTS; i++) hash('md5', term, 'hex')
    note('MD5 of so many bytes, alone', at, round)
    const text = Buffer.from(bulkBody(round * DOCUMENTS, DOCUMENTS, DOCUMENT_BYTES))
    at = performance.now()
    const request = await bulkRequestIn(text, DOCUMENTS)
    at = note('read the JSON text, with the MD5', at, round)
    using snapshot = store.snapshot()
    const plan = await planBatch(snapshot, state, [request.documents.map(editOf)], ranks)
    const version = await snapshot.version()
    snapshot.release()
    at = note('look up, decide, encode rows', at, round)
    await store.commit({ ...plan.changes, expected: version })
    at = note('write and flush the rows, in a thread', at, round)
    const [outcomes = []] = plan.outcomes
    await joinedText(outcomes, (outcome, i) => JSON.stringify({ ...outcome, id: request.documents[i]?.id }))
    note('the reply', at, round)
    state = plan.state
    request.free()
    if (plan.changes.packed) freeRows(plan.changes.packed)
  }
} finally {
  await engine.close()
  await rm(folder, { recursive: true, force: true })
}

console.log(`${DOCUMENTS} documents of ${DOCUMENT_BYTES} bytes, the least of ${ROUNDS - WARM_UP_ROUNDS} rounds, ms`)
for (const [part, ms] of leastMs) console.log(`  ${part.padEnd(40)}${ms.toFixed(2).padStart(8)}`)

function editOf({ id, body, term }: SentDocument): NewRevisionEdit {
  if (id === undefined) throw new Error('A document has no id.')
  return { kind: 'interactive', id, parent: undefined, deleted: false, body, term }
}
