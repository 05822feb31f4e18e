/**
 * The limit of a bulk insert: `lmdb` with the durability of this server's files, one put a document, in batches. A
 * message with a duration starts a round; the answer has its rate, and how long each commit
 * took. Only the time of the commits counts.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import { member } from '../bench-database.ts'
import { temporaryFolder } from '../child-process.ts'
import { documentId, documentMembers } from '../sample-documents.ts'

const batch = Number(process.argv[2])
const sizeBytes = Number(process.argv[3])
const folder = temporaryFolder()
const database = open<Buffer, Buffer>(join(folder, 'limit.mdb'), {
  pageSize: 8192,
  noSubdir: true,
  overlappingSync: false,
  eventTurnBatching: false,
  encoding: 'binary',
  keyEncoding: 'binary',
})
let number = 0

process.on('message', async (message) => {
  const durationMs = Number(member(message, 'durationMs'))
  let busyMs = 0
  let puts = 0
  const latenciesMs: number[] = []
  while (busyMs < durationMs) {
    const rows = nextRows()
    const start = performance.now()
    await database.batch(() => {
      for (const [key, value] of rows) database.put(key, value)
    })
    const elapsedMs = performance.now() - start
    busyMs += elapsedMs
    latenciesMs.push(elapsedMs)
    puts += rows.length
  }
  process.send?.({ perSecond: puts / (busyMs / 1000), latenciesMs })
})
// The benchmark has ended, in order or not.
process.on('disconnect', () => {
  rmSync(folder, { recursive: true, force: true })
  process.exit()
})

function nextRows(): [Buffer, Buffer][] {
  return Array.from({ length: batch }, () => {
    const row: [Buffer, Buffer] = [
      Buffer.from(documentId(number)),
      Buffer.from(`{${documentMembers(number, sizeBytes)}}`),
    ]
    number++
    return row
  })
}
