/**
 * The limit of reading: `lmdb` alone, in a file with as many documents of as many bytes as the arguments say. Reads them one
 * by one in no order, or all of them in the order of their keys. A message with a duration starts a round; the answer has its rate.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import { member } from '../bench-database.ts'
import { temporaryFolder } from '../child-process.ts'
import { documentId, documentMembers } from '../sample-documents.ts'

const documents = Number(process.argv[2])
const sizeBytes = Number(process.argv[3])
const isScan = process.argv[4] === 'scan'
const folder = temporaryFolder()
const database = open<Buffer, Buffer>(join(folder, 'limit.mdb'), {
  pageSize: 8192,
  noSubdir: true,
  encoding: 'binary',
  keyEncoding: 'binary',
})
const ROWS_A_TURN = 1000

await database.batch(() => {
  for (let number = 0; number < documents; number++) {
    database.put(Buffer.from(documentId(number)), Buffer.from(`{${documentMembers(number, sizeBytes)}}`))
  }
})

function readSome(): number {
  for (let i = 0; i < ROWS_A_TURN; i++) {
    const value = database.get(Buffer.from(documentId(Math.floor(Math.random() * documents))))
    if (value?.length !== sizeBytes) throw new Error(`A document has ${value?.length} bytes.`)
  }
  return ROWS_A_TURN
}

function scanAll(): number {
  let rows = 0
  for (const { value } of database.getRange()) if (value.length > 0) rows++
  return rows
}

process.on('message', (message) => {
  const durationMs = Number(member(message, 'durationMs'))
  const start = performance.now()
  let rows = 0
  while (performance.now() - start < durationMs) rows += isScan ? scanAll() : readSome()
  process.send?.({ perSecond: rows / ((performance.now() - start) / 1000) })
})
// The benchmark has ended, in order or not.
process.on('disconnect', () => {
  rmSync(folder, { recursive: true, force: true })
  process.exit()
})
