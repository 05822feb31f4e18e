/** What `bench:nodes` asks of servers: each load on databases of its own, which are filled once. */
import { BenchDatabase, expectStatus } from './bench-database.ts'
import { type Load, TEMPLATE_NUMBER } from './load.ts'
import { bulkBody, documentId, documentMembers } from './sample-documents.ts'
import { getDocuments, putDocuments, putRequest } from './workloads.ts'

export interface NodeLoad {
  /** Short: for `--only`. */
  readonly name: string
  readonly title: string
  readonly unit: 'requests' | 'documents' | 'rows'
  /** Connections before it is measured, where one would reach one node only. */
  readonly warmConnections?: number
  /** Makes and fills the databases on a server. */
  load(url: string, documents: number): Promise<Load>
}

const LARGE_BYTES = 1024
const SMALL_BYTES = 300
const BATCH = 500
const PAGE = 100
const WRITTEN_DATABASES = 4

export const GET_32: NodeLoad = {
  name: 'get',
  title: 'GET a document of 1 KB, 32 connections',
  unit: 'requests',
  load: async (url, documents) =>
    getDocuments(await filled(url, 'get', documents, LARGE_BYTES), { connections: 32, documents }),
}

export const GET_1: NodeLoad = {
  name: 'get-1',
  warmConnections: 32,
  title: 'GET a document of 1 KB, 1 connection',
  unit: 'requests',
  load: async (url, documents) =>
    getDocuments(await filled(url, 'get-1', documents, LARGE_BYTES), { connections: 1, documents }),
}

export const PUT_4_DATABASES: NodeLoad = {
  name: 'put-4',
  title: 'PUT a new document, over 4 databases, 32 connections',
  unit: 'requests',
  load: async (url) => {
    const names = Array.from({ length: WRITTEN_DATABASES }, (_, i) => `put-4-${i}`)
    const databases = await Promise.all(names.map((name) => created(url, name)))
    const templates = databases.map((database) => putRequest(database, TEMPLATE_NUMBER))
    const numbered = { templates, status: 201, next: 0 }
    return {
      connections: 32,
      next: () => {
        const number = numbered.next++
        return { request: putRequest(databases[number % databases.length]!, number), check: one(201) }
      },
      numbered,
    }
  },
}

export const PUT_1: NodeLoad = {
  name: 'put-1',
  warmConnections: 32,
  title: 'PUT a new document, 1 connection',
  unit: 'requests',
  load: async (url) => putDocuments(await created(url, 'put-1'), { connections: 1, firstNumber: 0 }),
}

export const PUT_32: NodeLoad = {
  name: 'put',
  title: 'PUT a new document, 32 connections',
  unit: 'requests',
  load: async (url) => putDocuments(await created(url, 'put'), { connections: 32, firstNumber: 0 }),
}

export const BULK: NodeLoad = {
  name: 'bulk',
  title: `_bulk_docs, ${BATCH} new documents of 300 B`,
  unit: 'documents',
  load: async (url) => {
    const database = await created(url, 'bulk')
    let number = 0
    return {
      connections: 1,
      next: () => {
        const body = bulkBody(number, BATCH, SMALL_BYTES)
        number += BATCH
        return { request: database.request('POST', '/_bulk_docs', body), check: many(201, BATCH) }
      },
    }
  },
}

export const ALL_DOCS: NodeLoad = {
  name: 'scan',
  title: '_all_docs, all rows',
  unit: 'rows',
  load: async (url, documents) => reads(await filled(url, 'scan', documents, SMALL_BYTES), documents, '/_all_docs'),
}

export const ALL_DOCS_PAGE: NodeLoad = {
  name: 'page',
  title: '_all_docs, pages of 20 rows, 8 connections',
  unit: 'requests',
  load: async (url, documents) =>
    pages(await filled(url, 'page', documents, SMALL_BYTES), (query) => {
      const start = documentId((query * 7919) % (documents - PAGE))
      return `/_all_docs?limit=20&startkey=%22${start}%22`
    }),
}

export const CHANGES: NodeLoad = {
  name: 'changes',
  title: '_changes, all rows',
  unit: 'rows',
  load: async (url, documents) => reads(await filled(url, 'changes', documents, SMALL_BYTES), documents, '/_changes'),
}

export const VIEW: NodeLoad = {
  name: 'view',
  title: `a view, ranges of ${PAGE} rows, 8 connections`,
  unit: 'requests',
  load: async (url, documents) =>
    pages(
      await indexed(url, 'view', documents),
      (query) => `/_design/bench/_view/ids?limit=${PAGE}&skip=${(query * 7919) % (documents - PAGE)}`,
    ),
}

export const VIEW_CHANGED: NodeLoad = {
  name: 'view-changed',
  title: 'a document written, and a view that shows it',
  unit: 'requests',
  load: async (url, documents) => {
    const database = await indexed(url, 'view-changed', documents)
    let number = documents
    let isWrite = false
    return {
      connections: 1,
      next: () => {
        isWrite = !isWrite
        if (isWrite) {
          const body = `{${documentMembers(number, SMALL_BYTES)}}`
          return { request: database.request('PUT', `/${documentId(++number)}`, body), check: many(201, 0) }
        }
        const key = documentId(number)
        return {
          request: database.request('GET', `/_design/bench/_view/ids?key=%22${key}%22`),
          check: (reply) => {
            expectStatus(reply, 200)
            if (!reply.body.includes(`"id":"${key}"`)) throw new Error('A view does not show what was written.')
            return 1
          },
        }
      },
    }
  },
}

const one = (status: number) => many(status, 1)

function many(status: number, units: number): ReturnType<Load['next']>['check'] {
  return (reply) => {
    expectStatus(reply, status)
    return units
  }
}

function reads(database: BenchDatabase, rows: number, path: string): Load {
  const exchange = { request: database.request('GET', path), check: many(200, rows) }
  return { connections: 1, next: () => exchange }
}

function pages(database: BenchDatabase, pathOf: (query: number) => string): Load {
  let query = 0
  return { connections: 8, next: () => ({ request: database.request('GET', pathOf(query++)), check: one(200) }) }
}

async function created(url: string, name: string): Promise<BenchDatabase> {
  const database = new BenchDatabase(url, `bench-${name}`)
  await database.create()
  return database
}

async function filled(url: string, name: string, documents: number, sizeBytes: number): Promise<BenchDatabase> {
  const database = await created(url, name)
  await database.fill(documents, sizeBytes)
  return database
}

async function indexed(url: string, name: string, documents: number): Promise<BenchDatabase> {
  const database = await filled(url, name, documents, SMALL_BYTES)
  const views = { ids: { map: 'function (doc) { emit(doc._id, null) }' } }
  await database.call('PUT', '/_design/bench', 201, JSON.stringify({ views }))
  await database.call('GET', '/_design/bench/_view/ids?limit=1', 200)
  return database
}
