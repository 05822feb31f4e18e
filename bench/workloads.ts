/**
 * What is measured. To add a workload, add an object to the list: `prepare` fills a fresh database, `run` gives the load
 * that is put on it in every round, and `aim` is how many times the rate of pouchdb-server this server should reach.
 */
import { type BenchDatabase, expectStatus, member, parsed, rowsIn, savedIn } from './bench-database.ts'
import { listeners, UPDATES, wakeUps } from './feed-loads.ts'
import {
  bareFile,
  bareHttp,
  bareIsolate,
  bareLmdb,
  bareLmdbReads,
  bareSocket,
  bareUpload,
  type Limit,
} from './limits.ts'
import { type Drive, type Load, TEMPLATE_NUMBER } from './load.ts'
import { continuousReplication, fillWithAttachments, idleReplications, replications } from './replication-loads.ts'
import { bulkBody, documentId, documentMembers } from './sample-documents.ts'

export interface Workload {
  /** Short: for `--only`. */
  readonly name: string
  readonly title: string
  readonly unit: 'documents' | 'requests' | 'rows' | 'changes told'
  readonly aim?: number
  /** What no server on this machine could exceed: parts of the work with nothing around them. */
  readonly limits?: readonly Limit[]
  /** Of large bodies, the bytes of one: their processor time is told for a gigabyte, beside that of the limit. */
  readonly bodyBytes?: number
  prepare(database: BenchDatabase): Promise<void>
  run(database: BenchDatabase): Promise<Load | Drive>
}

const DOCUMENTS = 10_000
const CHANGES = 100_000
const LISTENERS = 500
const REPLICATED = 50_000
const LARGE_BYTES = 1024
const SMALL_BYTES = 300
const BATCH = 1000
const MAPPED = 5000
const MAP = 'function (doc) { emit(doc.number, null); emit([doc.type, doc.tags[0]], 1) }'
const GET_REPLY = { connections: 32, sizeBytes: LARGE_BYTES + documentId(0).length + 60 }
const nothing = async () => {}

/** A reply of so many rows, each of about so many bytes. */
function repliesOf(rows: number, rowBytes: number): Limit[] {
  const reply = { connections: 1, sizeBytes: rows * rowBytes, units: rows }
  return [bareSocket(reply), bareHttp(reply)]
}

export const workloads: readonly Workload[] = [
  {
    name: 'get',
    title: 'GET a document of 1 KB, 32 connections',
    unit: 'requests',
    aim: 15,
    limits: [
      bareSocket(GET_REPLY),
      bareHttp({ ...GET_REPLY, share: 0.6 }),
      bareLmdbReads({ documents: DOCUMENTS, sizeBytes: LARGE_BYTES, order: 'any' }),
    ],
    prepare: (database) => database.fill(DOCUMENTS, LARGE_BYTES),
    run: (database) => getDocuments(database, { connections: 32, documents: DOCUMENTS }),
  },
  {
    name: 'put-1',
    title: 'PUT a new document, 1 connection',
    unit: 'requests',
    limits: [bareLmdb({ batch: 1, sizeBytes: SMALL_BYTES })],
    prepare: nothing,
    run: async (database) => ({
      ...(await putDocuments(database, { connections: 1, firstNumber: 0 })),
      keepsLatencies: true,
    }),
  },
  {
    name: 'put-32',
    title: 'PUT a new document, 32 connections',
    unit: 'requests',
    aim: 15,
    limits: [bareLmdb({ batch: 32, sizeBytes: SMALL_BYTES })],
    prepare: nothing,
    run: (database) => putDocuments(database, { connections: 32, firstNumber: 0 }),
  },
  {
    name: 'bulk-insert',
    title: '_bulk_docs, 1,000 new documents of 300 B',
    unit: 'documents',
    aim: 8,
    limits: [bareLmdb({ share: 0.4, batch: BATCH, sizeBytes: SMALL_BYTES })],
    prepare: nothing,
    run: (database) => insertInBulk(database, { connections: 1, batch: BATCH, sizeBytes: SMALL_BYTES }),
  },
  {
    name: 'bulk-insert-4',
    title: '_bulk_docs, 1,000 new documents of 300 B, 4 connections',
    unit: 'documents',
    aim: 8,
    limits: [bareLmdb({ batch: BATCH, sizeBytes: SMALL_BYTES })],
    prepare: nothing,
    run: (database) => insertInBulk(database, { connections: 4, batch: BATCH, sizeBytes: SMALL_BYTES }),
  },
  {
    name: 'bulk-insert-10k',
    title: '_bulk_docs, 100 new documents of 10 KB',
    unit: 'documents',
    aim: 5,
    limits: [bareLmdb({ share: 0.4, batch: 100, sizeBytes: 10_000 })],
    prepare: nothing,
    run: (database) => insertInBulk(database, { connections: 1, batch: 100, sizeBytes: 10_000 }),
  },
  {
    name: 'bulk-insert-10m',
    title: '_bulk_docs, 1,000 new documents of 10 KB',
    unit: 'documents',
    aim: 5,
    limits: [bareLmdb({ batch: BATCH, sizeBytes: 10_000 })],
    prepare: nothing,
    run: (database) => insertInBulk(database, { connections: 1, batch: BATCH, sizeBytes: 10_000 }),
  },
  {
    name: 'bulk-update',
    title: '_bulk_docs, the same 1,000 documents updated',
    unit: 'documents',
    aim: 6,
    prepare: (database) => database.fill(BATCH, SMALL_BYTES),
    run: updateInBulk,
  },
  {
    name: 'scan',
    title: '_all_docs, 10,000 rows',
    unit: 'rows',
    aim: 5,
    limits: [...repliesOf(DOCUMENTS, 95), bareLmdbReads({ documents: DOCUMENTS, sizeBytes: 110, order: 'scan' })],
    prepare: (database) => database.fill(DOCUMENTS, SMALL_BYTES),
    run: async (database) => ({
      connections: 1,
      next: () => ({
        request: database.request('GET', '/_all_docs'),
        check: (reply) => rowsIn(parsed(reply, 200), DOCUMENTS, hasRevision).length,
      }),
    }),
  },
  {
    name: 'scan-docs',
    title: '_all_docs with include_docs, 10,000 rows',
    unit: 'rows',
    aim: 8,
    limits: [
      ...repliesOf(DOCUMENTS, 450),
      bareLmdbReads({ documents: DOCUMENTS, sizeBytes: SMALL_BYTES, order: 'scan' }),
    ],
    prepare: (database) => database.fill(DOCUMENTS, SMALL_BYTES),
    run: async (database) => ({
      connections: 1,
      next: () => ({
        request: database.request('GET', '/_all_docs?include_docs=true'),
        check: (reply) => rowsIn(parsed(reply, 200), DOCUMENTS, hasDocument).length,
      }),
    }),
  },
  {
    name: 'keys',
    title: 'POST _all_docs, 1,000 keys of 10,000',
    unit: 'rows',
    aim: 20,
    limits: [bareLmdbReads({ documents: DOCUMENTS, sizeBytes: 110, order: 'any' })],
    prepare: (database) => database.fill(DOCUMENTS, SMALL_BYTES),
    run: async (database) => ({
      connections: 1,
      next: () => {
        const keys = Array.from({ length: BATCH }, () => documentId(anyNumber(DOCUMENTS)))
        return {
          request: database.request('POST', '/_all_docs', JSON.stringify({ keys })),
          check: (reply) => rowsIn(parsed(reply, 200), BATCH, hasRevision).length,
        }
      },
    }),
  },
  {
    name: 'changes',
    title: '_changes, 100,000 rows',
    unit: 'rows',
    aim: 25,
    limits: [...repliesOf(CHANGES, 110), bareLmdbReads({ documents: CHANGES, sizeBytes: 110, order: 'scan' })],
    prepare: (database) => database.fill(CHANGES, SMALL_BYTES),
    run: async (database) => ({
      connections: 1,
      next: () => ({
        request: database.request('GET', '/_changes'),
        check: (reply) => changesIn(parsed(reply, 200), CHANGES),
      }),
    }),
  },
  {
    name: 'view-build',
    title: 'build a view of 5,000 documents, two rows each',
    unit: 'documents',
    aim: 10,
    limits: [bareIsolate({ documents: MAPPED, sizeBytes: SMALL_BYTES, map: MAP })],
    prepare: (database) => database.fill(MAPPED, SMALL_BYTES),
    run: async (database) => viewBuilds(database),
  },
  {
    name: 'view-rows',
    title: 'a view, 10,000 rows',
    unit: 'rows',
    aim: 10,
    limits: [...repliesOf(2 * MAPPED, 80), bareLmdbReads({ documents: 2 * MAPPED, sizeBytes: 110, order: 'scan' })],
    prepare: async (database) => {
      await database.fill(MAPPED, SMALL_BYTES)
      await buildView(database, 0)
    },
    run: async (database) => ({
      connections: 1,
      next: () => ({
        request: database.request('GET', '/_design/build-0/_view/rows'),
        check: (reply) => rowsIn(parsed(reply, 200), 2 * MAPPED, hasKey).length,
      }),
    }),
  },
  {
    name: 'wake-up',
    title: 'a change to a client that waits for it (longpoll)',
    unit: 'changes told',
    // Nobody hears of a change before it is on disk.
    limits: [bareLmdb({ batch: 1, sizeBytes: SMALL_BYTES })],
    prepare: nothing,
    run: async (database) => wakeUps(database),
  },
  {
    name: 'listeners',
    title: `${UPDATES} updates to ${LISTENERS} listeners (continuous)`,
    unit: 'changes told',
    aim: 40,
    prepare: nothing,
    run: async (database) => listeners(database, LISTENERS),
  },
  {
    name: 'replicate',
    title: `replicate ${REPLICATED.toLocaleString('en')} documents of 300 B between two databases`,
    unit: 'documents',
    aim: 15,
    prepare: (database) => database.fill(REPLICATED, SMALL_BYTES),
    run: async (database) => replications(database, REPLICATED, 'by name'),
  },
  {
    name: 'replicate-http',
    title: 'the same over HTTP',
    unit: 'documents',
    aim: 10,
    prepare: (database) => database.fill(REPLICATED, SMALL_BYTES),
    run: async (database) => replications(database, REPLICATED, 'over HTTP'),
  },
  {
    name: 'replicate-attachments',
    title: 'replicate 5,000 documents over HTTP, one in ten with an attachment of 50 KB',
    unit: 'documents',
    aim: 10,
    prepare: (database) => fillWithAttachments(database, 5000, 50_000),
    run: async (database) => replications(database, 5000, 'over HTTP'),
  },
  {
    name: 'replicate-again',
    title: 'replicate again when there is nothing new',
    unit: 'requests',
    prepare: (database) => database.fill(DOCUMENTS, SMALL_BYTES),
    run: async (database) => idleReplications(database),
  },
  {
    name: 'replicate-live',
    title: 'a document to the target of a continuous replication',
    unit: 'documents',
    prepare: nothing,
    run: async (database) => continuousReplication(database),
  },
  {
    name: 'attachment-get-10m',
    title: 'GET an attachment of 10 MB, 1 connection',
    unit: 'requests',
    bodyBytes: 10_000_000,
    limits: [
      bareSocket({ connections: 1, sizeBytes: 10_000_000 }),
      bareFile({ share: 0.6, connections: 1, sizeBytes: 10_000_000 }),
    ],
    prepare: (database) => putAttachment(database, 10_000_000),
    run: async (database) => getAttachment(database, 10_000_000, 1),
  },
  {
    name: 'attachment-get-64k',
    title: 'GET an attachment of 64 KB, 8 connections',
    unit: 'requests',
    limits: [bareSocket({ connections: 8, sizeBytes: 65_536 }), bareFile({ connections: 8, sizeBytes: 65_536 })],
    prepare: (database) => putAttachment(database, 65_536),
    run: async (database) => getAttachment(database, 65_536, 8),
  },
  {
    name: 'attachment-put-10m',
    title: 'PUT an attachment of 10 MB, 1 connection',
    unit: 'requests',
    aim: 4,
    bodyBytes: 10_000_000,
    limits: [bareUpload({ share: 0.4, connections: 1, sizeBytes: 10_000_000 })],
    prepare: nothing,
    run: async (database) => putAttachments(database, 10_000_000, 1),
  },
  {
    name: 'attachment-put-256m',
    title: 'PUT an attachment of 256 MB, 1 connection',
    unit: 'requests',
    bodyBytes: 256_000_000,
    limits: [bareUpload({ share: 0.4, connections: 1, sizeBytes: 256_000_000 })],
    prepare: nothing,
    run: async (database) => putAttachments(database, 256_000_000, 1),
  },
  {
    name: 'attachment-put-64k',
    title: 'PUT an attachment of 64 KB, 8 connections',
    unit: 'requests',
    limits: [bareUpload({ connections: 8, sizeBytes: 65_536 })],
    prepare: nothing,
    run: async (database) => putAttachments(database, 65_536, 8),
  },
]

/** From the design document to the first answer. There was no view of that source before. */
async function buildView(database: BenchDatabase, number: number): Promise<void> {
  const views = { rows: { map: MAP.replace('{', `{ /* ${number} */`) } }
  await database.call('PUT', `/_design/build-${number}`, 201, JSON.stringify({ views }))
  const answer = await database.call('GET', `/_design/build-${number}/_view/rows?limit=1`, 200)
  if (member(answer, 'total_rows') !== 2 * MAPPED) throw new Error('Rows are missing.')
}

function viewBuilds(database: BenchDatabase): Drive {
  let number = 0
  return {
    drive: async (durationMs) => {
      const start = performance.now()
      let units = 0
      while (performance.now() - start < durationMs) {
        await buildView(database, number++)
        units += MAPPED
      }
      return { units, unitsPerSecond: units / ((performance.now() - start) / 1000), generatorShare: 0 }
    },
  }
}

function hasKey(row: unknown): boolean {
  return member(row, 'key') !== undefined && typeof member(row, 'id') === 'string'
}

/** A type that nobody packs. */
const BINARY = { contentType: 'application/octet-stream' }

async function putAttachment(database: BenchDatabase, sizeBytes: number): Promise<void> {
  await database.call('PUT', '/document/content', 201, 'x'.repeat(sizeBytes), BINARY)
}

function getAttachment(database: BenchDatabase, sizeBytes: number, connections: number): Load {
  const exchange: ReturnType<Load['next']> = {
    request: database.request('GET', '/document/content'),
    check: (reply) => {
      expectStatus(reply, 200)
      if (reply.body.length !== sizeBytes) throw new Error(`An attachment came with ${reply.body.length} bytes.`)
      return 1
    },
  }
  return { connections, next: () => exchange }
}

/** Each on a document of its own. */
function putAttachments(database: BenchDatabase, sizeBytes: number, connections: number): Load {
  const content = 'x'.repeat(sizeBytes)
  const round = anyNumber(1e9)
  let count = 0
  return {
    connections,
    next: () => ({
      request: database.request('PUT', `/with-${round}-${count++}/content`, content, BINARY),
      check: (reply) => {
        expectStatus(reply, 201)
        return 1
      },
    }),
  }
}

/** Reads documents in no order. All are of one size, so the size of the answer tells whether it is whole. */
export async function getDocuments(
  database: BenchDatabase,
  { connections, documents }: { connections: number; documents: number },
): Promise<Load> {
  const document = await database.call('GET', `/${documentId(0)}`, 200)
  if (member(document, '_id') !== documentId(0)) throw new Error('The document read is not the one asked for.')
  let sizeBytes = 0
  const check: ReturnType<Load['next']>['check'] = (reply) => {
    expectStatus(reply, 200)
    sizeBytes ||= reply.body.length
    if (reply.body.length !== sizeBytes) throw new Error(`A document came with ${reply.body.length} bytes.`)
    return 1
  }
  const request = (number: number) => database.request('GET', `/${documentId(number)}`)
  return {
    connections,
    next: () => ({ request: request(anyNumber(documents)), check }),
    numbered: { templates: [request(TEMPLATE_NUMBER)], status: 200, documents, next: 0 },
  }
}

export async function putDocuments(
  database: BenchDatabase,
  { connections, firstNumber }: { connections: number; firstNumber: number },
): Promise<Load> {
  const check: ReturnType<Load['next']>['check'] = (reply) => {
    expectStatus(reply, 201)
    return 1
  }
  const request = (number: number) => putRequest(database, number)
  const numbered = { templates: [request(TEMPLATE_NUMBER)], status: 201, next: firstNumber }
  return {
    connections,
    next: () => ({ request: request(numbered.next++), check }),
    numbered,
    verify: () => database.expectCount(numbered.next),
  }
}

export function putRequest(database: BenchDatabase, number: number): string {
  return database.request('PUT', `/${documentId(number)}`, `{${documentMembers(number, SMALL_BYTES)}}`)
}

async function insertInBulk(
  database: BenchDatabase,
  { connections, batch, sizeBytes }: { connections: number; batch: number; sizeBytes: number },
): Promise<Load> {
  let number = 0
  return {
    connections,
    next: () => {
      const body = bulkBody(number, batch, sizeBytes)
      number += batch
      return {
        request: database.request('POST', '/_bulk_docs', body),
        check: (reply) => savedIn(parsed(reply, 201), batch).length,
      }
    },
    verify: () => database.expectCount(number),
  }
}

async function updateInBulk(database: BenchDatabase): Promise<Load> {
  const rows = rowsIn(await database.call('GET', '/_all_docs', 200), BATCH, hasRevision)
  let saved = rows.map((row) => ({
    id: String(member(row, 'id')),
    revision: String(member(member(row, 'value'), 'rev')),
  }))
  let update = 0
  return {
    connections: 1,
    next: () => {
      update++
      const documents = saved.map(
        ({ id, revision }, i) => `{"_id":"${id}","_rev":"${revision}",${documentMembers(i + update, SMALL_BYTES)}}`,
      )
      return {
        request: database.request('POST', '/_bulk_docs', `{"docs":[${documents.join(',')}]}`),
        check: (reply) => {
          saved = savedIn(parsed(reply, 201), BATCH)
          return BATCH
        },
      }
    },
    verify: () => database.expectCount(BATCH),
  }
}

function hasRevision(row: unknown): boolean {
  return typeof member(member(row, 'value'), 'rev') === 'string'
}

function hasDocument(row: unknown): boolean {
  const id = member(row, 'id')
  return (
    id !== undefined && member(member(row, 'doc'), '_id') === id && member(member(row, 'doc'), 'text') !== undefined
  )
}

function changesIn(answer: unknown, count: number): number {
  const results = member(answer, 'results')
  if (!Array.isArray(results) || results.length !== count)
    throw new Error(`${count} changes should have been answered.`)
  const ids = new Set(results.map((change: unknown) => member(change, 'id')))
  if (ids.size !== count) throw new Error('A document is in the changes twice.')
  return count
}

function anyNumber(below: number): number {
  return Math.floor(Math.random() * below)
}
