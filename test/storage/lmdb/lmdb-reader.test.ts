import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { open } from 'lmdb'
import { expect, it, onTestFinished, vi } from 'vitest'
import { libraryUse } from '../../../src/storage/lmdb/library/library-use.ts'
import { RowCollector } from '../../../src/storage/lmdb/library/lmdb-pages.ts'
import { LmdbErrors } from '../../../src/storage/lmdb/lmdb-errors.ts'
import { KeyWriter, LmdbReader } from '../../../src/storage/lmdb/lmdb-snapshot.ts'
import { FileDamagedError } from '../../../src/storage/storage-error.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function sharedReader() {
  const path = join(await temporaryFolder(), 'store.mdb')
  const keys = new KeyWriter()
  const rows = new RowCollector()
  const database = open<Uint8Array, Uint8Array>(path, {
    noSubdir: true,
    encoding: 'binary',
    encoder: rows,
    keyEncoder: { writeKey: keys.writeKey, readKey: rows.readKey },
  })
  onTestFinished(() => database.close())
  const errors = new LmdbErrors(path, undefined)
  const reader = new LmdbReader(database, { use: libraryUse(), isShared: true, errors, keys, rows })
  return { reader, errors, renewals: vi.spyOn(database, 'resetReadTxn') }
}

it('begins one transaction for all readers of one task of the event loop', async () => {
  const { reader, renewals } = await sharedReader()
  const first = reader.beginRead()
  const second = reader.beginRead()
  expect(renewals).toHaveBeenCalledTimes(1)
  expect(second.own).toBe(first.own)
  reader.endRead(first)
  reader.endRead(second)
})

it('shares it among readers that come from promises, too', async () => {
  const { reader, renewals } = await sharedReader()
  await nextTurn()
  const request = async () => {
    await Promise.resolve()
    reader.endRead(reader.beginRead())
  }
  await Promise.all([request(), request(), request()])
  expect(renewals).toHaveBeenCalledTimes(1)
})

it('begins a new one in the next task, in which messages of the writer may have come', async () => {
  const { reader, renewals } = await sharedReader()
  const first = reader.beginRead()
  await nextTurn()
  const second = reader.beginRead()
  expect(renewals).toHaveBeenCalledTimes(2)
  reader.endRead(first)
  reader.endRead(second)
})

it('begins a new one right after a damaged page was met', async () => {
  const { reader, errors, renewals } = await sharedReader()
  reader.endRead(reader.beginRead())
  errors.damage = new FileDamagedError('store.mdb', 'A page is of the wrong type.')
  reader.endRead(reader.beginRead())
  expect(renewals).toHaveBeenCalledTimes(2)
})
