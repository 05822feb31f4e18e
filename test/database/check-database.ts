/**
 * Holds everything in the store of a database against everything else in it: records, trees, bodies, changes, ranks and
 * numbers say the same thing several times over, and must agree. Every disagreement is a sentence; none means that the
 * database is whole.
 */
import type { ChangeRow } from '../../src/database/layout/change-row.ts'
import { type DocumentRecord, weightOfRecord } from '../../src/database/layout/document-record.ts'
import { type DatabaseState, DOCUMENT_PREFIX, RANK_PREFIX } from '../../src/database/layout/keys.ts'
import { sizeOfBody } from '../../src/database/layout/stored-body.ts'
import { leavesBestFirst, winner } from '../../src/document/revisions/winner.ts'
import type { RevisionTree } from '../../src/document/tree/revision-tree.ts'
import { RankTree } from '../../src/storage/rank-tree/rank-tree.ts'
import type { Snapshot } from '../../src/storage/store.ts'
import { DatabaseContents } from './database-contents.ts'

/** The disagreements, in sentences. Reads all of the database, and holds it in memory. */
export async function checkDatabase(snapshot: Snapshot): Promise<string[]> {
  return checkContents(await DatabaseContents.read(snapshot), snapshot)
}

/** The same for contents that were read already. */
export async function checkContents(contents: DatabaseContents, snapshot: Snapshot): Promise<string[]> {
  const { state, salt } = contents
  if (!state || !salt) return [...contents.faults, 'The database has no numbers, or no identity.']
  return [
    ...contents.faults,
    ...[...contents.records].flatMap(([id, record]) =>
      recordFaults(contents, id, record).map((fault) => `'${id}': ${fault}`),
    ),
    ...strayTrees(contents),
    ...changeFaults(contents, state),
    ...bodyFaults(contents, state),
    ...numberFaults(contents, state),
    ...(await rankFaults(snapshot, salt, state)),
  ]
}

function recordFaults(contents: DatabaseContents, id: string, record: DocumentRecord): string[] {
  const tree = contents.treeOf(id)
  if (!tree) return ['its tree lies apart and is not there']
  const best = winner(tree)
  const faults: string[] = []
  if (record.winner !== best.revision) faults.push(`it shows ${record.winner} and not ${best.revision}`)
  if (record.deleted !== (best.status === 'deleted')) faults.push('whether it is deleted is not what its winner is')
  if (record.body !== best.body) faults.push(`it shows body ${record.body}, its winner has ${best.body}`)
  const body = contents.bodies.get(record.body)
  if (body && record.bodyBytes !== sizeOfBody(body)) {
    faults.push(`its body is said to have ${record.bodyBytes} bytes, and has ${sizeOfBody(body)}`)
  }
  const oldBodies = tree.bodies().length - tree.branches.length
  if (record.hasOldBodies !== oldBodies > 0) faults.push(`it has ${oldBodies} old bodies and says otherwise`)
  const change = contents.changes.get(record.sequence)
  if (change?.id !== id) faults.push(`its change ${record.sequence} is not there`)
  return [...faults, ...treeFaults(tree), ...attachmentFaults(contents, record, tree)]
}

function treeFaults(tree: RevisionTree): string[] {
  const faults: string[] = []
  const seen = new Set<string>()
  for (const leaf of tree.leaves()) {
    if (leaf.status === 'missing') faults.push(`the leaf ${leaf.revision} has no body`)
    if (!tree.isLeaf(leaf.revision)) faults.push(`the leaf ${leaf.revision} is in the tree twice`)
  }
  for (const [branch, { bodies }] of tree.branches.entries()) {
    for (let index = 0; index < bodies.length; index++) {
      const { revision } = tree.nodeAt({ branch, index })
      if (seen.has(revision)) faults.push(`${revision} is in the tree twice`)
      seen.add(revision)
    }
  }
  return faults
}

/** Bytes that nothing refers to may be there: an upload broke off, and compaction has not come by. */
function attachmentFaults(contents: DatabaseContents, record: DocumentRecord, tree: RevisionTree): string[] {
  const attachments = tree.bodies().flatMap((body) => contents.bodies.get(body)?.attachments ?? [])
  const faults = attachments.flatMap(({ name, number, storedLength }) => {
    const chunks = contents.attachments.get(number)
    const length = chunks?.reduce((sum, size) => sum + size, 0)
    return length === storedLength ? [] : [`its attachment '${name}' has ${length} bytes and not ${storedLength}`]
  })
  if (attachments.length > 0 && !record.hasAttachments) faults.push('it has attachments and says otherwise')
  return faults
}

function strayTrees({ treesApart, records }: DatabaseContents): string[] {
  return [...treesApart.keys()]
    .filter((id) => records.get(id) === undefined || records.get(id)?.tree !== undefined)
    .map((id) => `There is a tree of '${id}' that no record speaks of.`)
}

function changeFaults(contents: DatabaseContents, { updateSequence }: DatabaseState): string[] {
  const faults: string[] = []
  const ids = new Set<string>()
  for (const [sequence, change] of contents.changes) {
    const of = `The change ${sequence} of '${change.id}'`
    if (change.sequence !== sequence) faults.push(`${of} says that it is ${change.sequence}.`)
    if (sequence > updateSequence) faults.push(`${of} is above the update sequence ${updateSequence}.`)
    if (ids.has(change.id)) faults.push(`${of} is not the only one.`)
    ids.add(change.id)
    faults.push(...changeOfRecordFaults(contents, change).map((fault) => `${of} ${fault}.`))
  }
  return faults
}

function changeOfRecordFaults(
  contents: DatabaseContents,
  { id, leaves, deleted, body, sequence }: ChangeRow & { sequence: number },
) {
  const record = contents.records.get(id)
  const tree = contents.treeOf(id)
  if (!record || !tree) return ['has no document']
  const faults: string[] = []
  if (record.sequence !== sequence) faults.push(`is not the one of its record, ${record.sequence}`)
  if (deleted !== record.deleted || body !== record.body) faults.push('does not show the winner of its record')
  const right = leavesBestFirst(tree).map(({ revision }) => revision)
  if (leaves.join() !== right.join()) faults.push(`has the leaves ${leaves} and not ${right}`)
  return faults
}

function bodyFaults(contents: DatabaseContents, { nextBody }: DatabaseState): string[] {
  const faults: string[] = []
  const used = new Set<number>()
  for (const id of contents.records.keys()) {
    for (const body of contents.treeOf(id)?.bodies() ?? []) {
      if (used.has(body)) faults.push(`Body ${body} is used more than once.`)
      if (!contents.bodies.has(body)) faults.push(`Body ${body} of '${id}' is not there.`)
      used.add(body)
    }
  }
  for (const body of contents.bodies.keys()) {
    if (!used.has(body)) faults.push(`Body ${body} is used by nobody.`)
    if (body >= nextBody) faults.push(`Body ${body} is there, and ${nextBody} is to be the next.`)
  }
  return faults
}

function numberFaults(contents: DatabaseContents, state: DatabaseState): string[] {
  const records = [...contents.records.values()]
  const deletedCount = records.filter(({ deleted }) => deleted).length
  const counted = {
    documentCount: records.length - deletedCount,
    deletedCount,
    bodyBytes: records.reduce((sum, { bodyBytes }) => sum + bodyBytes, 0),
    purgeSequence: contents.purges.size,
  }
  const purges = [...contents.purges.keys()].filter((sequence) => sequence < 1 || sequence > contents.purges.size)
  return [
    ...Object.entries(counted)
      .filter(([name, count]) => Reflect.get(state, name) !== count)
      .map(([name, count]) => `The ${name} is said to be ${Reflect.get(state, name)} and is ${count}.`),
    ...purges.map((sequence) => `The purge ${sequence} is out of its row.`),
  ]
}

async function rankFaults(snapshot: Snapshot, salt: Buffer, { documentCount }: DatabaseState): Promise<string[]> {
  const ranks = new RankTree({
    rowPrefix: DOCUMENT_PREFIX,
    nodePrefix: RANK_PREFIX,
    salt,
    weightOf: weightOfRecord,
  })
  const { wrong, extra } = await ranks.check(snapshot)
  const total = await ranks.total(snapshot)
  return [
    ...(wrong > 0 ? [`${wrong} nodes of the rank tree are wrong or missing.`] : []),
    ...(extra > 0 ? [`${extra} nodes of the rank tree ought not to be there.`] : []),
    ...(total === documentCount ? [] : [`The rank tree counts ${total} documents, the database ${documentCount}.`]),
  ]
}
