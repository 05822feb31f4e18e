/**
 * Makes the sample folder of the format that this release writes, in `test/formats/<format>/`: `node test/formats/make-folder.ts`.
 * To be run once for each format, by the release that brings it, and never again: the folders of older formats stay as they are.
 */
import { access, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { createService } from '../../src/service.ts'
import { FORMAT_VERSION } from '../../src/storage/files/folder-format.ts'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { contentsOf } from '../commands/compare-databases.ts'
import { LONG_NAME, NAMES, VIEW } from './sample-names.ts'

const target = join(import.meta.dirname, String(FORMAT_VERSION))
const isThere = await access(target).then(
  () => true,
  () => false,
)
if (isThere) throw new Error(`${target} is there already. The folder of a format never changes.`)
const dir = await mkdtemp(join(tmpdir(), 'settle-format-'))
const service = await createService({ dir, port: 0 })
const url = await service.listen()

async function send(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = JSON_TYPE,
): Promise<string> {
  const text = body === undefined ? null : Buffer.isBuffer(body) ? new Uint8Array(body) : JSON.stringify(body)
  const reply = await fetch(`${url}${path}`, { method, headers, body: text })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return String(JSON.parse(await reply.text()).rev)
}

const JSON_TYPE = { 'Content-Type': 'application/json' }
await send('PUT', 'sample')
await send('PUT', 'sample/_revs_limit', 20)
await send('PUT', 'sample/_security', { members: { names: ['anna'], roles: [] } })
await send('POST', 'sample/_bulk_docs', {
  docs: Array.from({ length: 200 }, (_, i) => ({ _id: `doc-${i}`, n: i % 7 })),
})
const edits = ['b', 'c'].map((hash) => ({
  _id: 'conflict',
  _rev: `2-${hash}`,
  _revisions: { start: 2, ids: [hash, 'a'] },
}))
await send('POST', 'sample/_bulk_docs', { docs: edits, new_edits: false })
let rev = ''
for (let i = 0; i < 15; i++) rev = await send('PUT', `sample/long${rev && `?rev=${rev}`}`, { i })
rev = await send('PUT', 'sample/files/text.txt', Buffer.from('compressible '.repeat(1000)), {
  'Content-Type': 'text/plain',
})
await send('PUT', `sample/files/raw.bin?rev=${rev}`, Buffer.alloc(300_000, 7), {
  'Content-Type': 'application/octet-stream',
})
await send('DELETE', `sample/gone?rev=${await send('PUT', 'sample/gone', {})}`)
await send('POST', 'sample/_purge', { purged: [await send('PUT', 'sample/purged', {})] })
await send('PUT', 'sample/_local/one', { local: true })
await send('PUT', 'sample/_design/views', { views: { sum: { map: 'doc => { emit(doc.n, 1) }', reduce: '_sum' } } })
await send('PUT', 'parted?partitioned=true')
await send('PUT', 'parted/north:one', { n: 1 })
await send('PUT', LONG_NAME)
await send('PUT', `${LONG_NAME}/one`, {})
await send('GET', VIEW)
const contents = []
for (const name of NAMES) contents.push([name, [...(await contentsOf(url, name))]])
await service.close()

// Without the room that files keep for later commits.
for (const folder of [dir, join(dir, 'view_indexes')]) {
  const engine = await LmdbEngine.open({ folder })
  for (const name of await engine.list()) await (await engine.open(name)).compact()
  await engine.close()
}
await mkdir(join(target, 'view_indexes'), { recursive: true })
for (const file of await readdir(dir, { recursive: true })) {
  if (!/(\.mdb|\.name|^format|^settings\.ini)$/.test(file)) continue
  await writeFile(join(target, `${file}.gz`), gzipSync(await readFile(join(dir, file)), { level: 9 }))
}
await writeFile(join(target, 'contents.json.gz'), gzipSync(JSON.stringify(contents), { level: 9 }))
await rm(dir, { recursive: true })
