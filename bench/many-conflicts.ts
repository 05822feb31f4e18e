/**
 * What a document with very many conflicts costs: CPU time of writing all of them in one request, of asking which are
 * missing, of reading and of purging them. It should double where they do. Run: node bench/many-conflicts.ts
 */
import { createHash } from 'node:crypto'
import { createService } from '../src/service.ts'

const SIZES = [1000, 2000, 4000, 8000]

const hash = (number: number) => createHash('md5').update(String(number)).digest('hex')

const service = await createService({ port: 0, inMemory: true })
const url = await service.listen()

async function cpuMs(path: string, body?: unknown, method = body === undefined ? 'GET' : 'POST'): Promise<number> {
  const before = process.cpuUsage()
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json' }
  const reply = await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
  await reply.arrayBuffer()
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status}`)
  const { user, system } = process.cpuUsage(before)
  return Math.round((user + system) / 1000)
}

console.log('conflicts  write  diff  read  purge (ms of CPU, client included)')
for (const size of [SIZES[0] ?? 0, ...SIZES]) {
  const database = `conflicts-${size}-${performance.now().toFixed()}`
  await cpuMs(database, undefined, 'PUT')
  const docs = Array.from({ length: size }, (_, i) => ({
    _id: 'a',
    _revisions: { start: 2, ids: [hash(i), hash(-1)] },
  }))
  const revs = docs.map(({ _revisions }) => `2-${_revisions.ids[0]}`)
  const times = [
    await cpuMs(`${database}/_bulk_docs`, { new_edits: false, docs }),
    await cpuMs(`${database}/_revs_diff`, { a: revs }),
    await cpuMs(`${database}/a?open_revs=all`),
    await cpuMs(`${database}/_purge`, { a: revs.slice(1) }),
  ]
  console.log(String(size).padStart(9), times.map((time) => String(time).padStart(6)).join(''))
}
await service.close()
