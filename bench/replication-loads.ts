/**
 * Loads that have a server replicate: between two of its databases, by name or over HTTP through its own address; again
 * when there is nothing to do; and continuously.
 */
import { BenchDatabase, expectStatus, member, parsed } from './bench-database.ts'
import { HttpConnection, requestText, type ServerAddress } from './http-connection.ts'
import type { Drive, Measure } from './load.ts'
import { documentId, documentMembers } from './sample-documents.ts'

/** Whether both databases are named, or reached over HTTP as those of another server would be. */
export type Reach = 'by name' | 'over HTTP'

/** Documents a second, each time into a new database; the last one is then removed. One replication a round. */
export function replications(database: BenchDatabase, documents: number, reach: Reach): Drive {
  let number = 0
  return {
    async drive(): Promise<Measure> {
      const target = siblingOf(database, `target-${number++}`)
      await target.create()
      try {
        const begun = performance.now()
        await replicate(database, target, reach)
        const seconds = (performance.now() - begun) / 1000
        await target.expectCount(documents)
        return { units: documents, unitsPerSecond: documents / seconds, generatorShare: 0 }
      } finally {
        await target.drop()
      }
    },
  }
}

/** How long a replication takes that has nothing to do. */
export function idleReplications(database: BenchDatabase): Drive {
  const target = siblingOf(database, 'target')
  let isReady = false
  return {
    async drive(durationMs): Promise<Measure> {
      if (!isReady) {
        await target.create()
        await replicate(database, target, 'by name')
        isReady = true
      }
      return latencies(durationMs, () => replicate(database, target, 'by name'))
    },
    end: () => target.drop(),
  }
}

/** From the reply to a write at the source to the first read at the target that finds it. */
export function continuousReplication(database: BenchDatabase): Drive {
  const target = siblingOf(database, 'target')
  let connections: [writer: HttpConnection, reader: HttpConnection] | undefined
  let number = 0
  return {
    async drive(durationMs): Promise<Measure> {
      if (!connections) {
        await target.create()
        connections = [await HttpConnection.open(database.server), await HttpConnection.open(database.server)]
        await replicate(database, target, 'by name', { continuous: true })
      }
      const [writer, reader] = connections
      const latenciesMs: number[] = []
      const begun = performance.now()
      while (performance.now() - begun < durationMs) {
        const id = `followed-${number++}`
        expectStatus(await writer.exchange(database.request('PUT', `/${id}`, '{}')), 201)
        const writtenMs = performance.now()
        for (let status = 0; status !== 200; ) status = (await reader.exchange(target.request('GET', `/${id}`))).status
        latenciesMs.push(performance.now() - writtenMs)
      }
      return measureOf(latenciesMs)
    },
    async end() {
      await replicate(database, target, 'by name', { continuous: true, cancel: true })
      for (const connection of connections ?? []) connection.destroy()
      await target.drop()
    },
  }
}

/** Documents of 300 bytes, every tenth with an attachment. */
export async function fillWithAttachments(database: BenchDatabase, count: number, sizeBytes: number): Promise<void> {
  const data = Buffer.alloc(sizeBytes, 'an attachment that nobody packs').toString('base64')
  const attachments = `"_attachments":{"a":{"content_type":"application/octet-stream","data":"${data}"}}`
  for (let first = 0; first < count; first += 100) {
    const documents = Array.from({ length: Math.min(100, count - first) }, (_, i) => {
      const number = first + i
      const attached = number % 10 === 0 ? `,${attachments}` : ''
      return `{"_id":"${documentId(number)}",${documentMembers(number, 300)}${attached}}`
    })
    await database.call('POST', '/_bulk_docs', 201, `{"docs":[${documents.join(',')}]}`)
  }
  await database.expectCount(count)
}

function siblingOf(database: BenchDatabase, suffix: string): BenchDatabase {
  return new BenchDatabase(urlOf(database.server), `${database.name}-${suffix}`)
}

function urlOf({ host, port, prefix, authorization }: ServerAddress): string {
  return `http://${authorization === undefined ? '' : loginOf(authorization)}${host}:${port}${prefix}/`
}

async function replicate(
  { server, name }: BenchDatabase,
  target: BenchDatabase,
  reach: Reach,
  options: object = {},
): Promise<void> {
  const base = reach === 'by name' ? '' : urlOf(server)
  const body = JSON.stringify({ source: base + name, target: base + target.name, ...options })
  const connection = await HttpConnection.open(server)
  try {
    const reply = await connection.exchange(requestText(server, 'POST', '/_replicate', body))
    if (reply.status !== 202) parsedAsDone(parsed(reply, 200))
  } finally {
    connection.destroy()
  }
}

function parsedAsDone(answer: unknown): void {
  if (member(answer, 'ok') !== true) throw new Error(`It was not replicated: ${JSON.stringify(answer).slice(0, 200)}`)
}

function loginOf(authorization: string): string {
  const [name = '', password = ''] = Buffer.from(authorization.slice('Basic '.length), 'base64').toString().split(':')
  return `${encodeURIComponent(name)}:${encodeURIComponent(password)}@`
}

async function latencies(durationMs: number, work: () => Promise<void>): Promise<Measure> {
  const latenciesMs: number[] = []
  const begun = performance.now()
  while (performance.now() - begun < durationMs) {
    const sentMs = performance.now()
    await work()
    latenciesMs.push(performance.now() - sentMs)
  }
  return measureOf(latenciesMs)
}

function measureOf(latenciesMs: readonly number[]): Measure {
  const units = latenciesMs.length
  const totalMs = latenciesMs.reduce((sum, each) => sum + each, 0)
  return { units, unitsPerSecond: (1000 * units) / totalMs, generatorShare: 0, latenciesMs }
}
