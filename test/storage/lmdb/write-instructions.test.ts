import { join } from 'node:path'
import { expect, it } from 'vitest'
import { putPacked } from '../../../src/storage/lmdb/library/write-instructions.ts'
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'
import { PackedRowsWriter } from '../../../src/storage/rows/packed-rows.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** Every length of a key, so that each way in which an instruction can meet the end of its block comes up. */
const KEY_BYTES = Array.from({ length: 1999 }, (_, i) => i + 1)
const VALUE_BYTES = [0, 1, 7, 8, 9, 300, 1023, 1024, 1025, 4000, 9000]

function keyOf(bytes: number, first: string): Buffer {
  return Buffer.alloc(bytes, `${first}${bytes},`)
}

function contentOf(bytes: number): Buffer {
  return Buffer.alloc(VALUE_BYTES[bytes % VALUE_BYTES.length]!, `${bytes};`)
}

it('writes rows of every size in one transaction, one by one and side by side in a block', async () => {
  const environment = new LmdbEnvironment(join(await temporaryFolder(), 'a.mdb'), { create: true, flush: false })
  try {
    const rows = new PackedRowsWriter()
    for (const bytes of KEY_BYTES) rows.put([keyOf(bytes, 'p'), contentOf(bytes)])
    await environment.write((target) => {
      for (const bytes of KEY_BYTES) target.put(keyOf(bytes, 's'), contentOf(bytes))
      putPacked(target, rows)
    })
    environment.reader.read((transaction) => {
      for (const bytes of KEY_BYTES) {
        for (const first of ['p', 's']) {
          const stored = environment.reader.get(transaction, keyOf(bytes, first))
          expect(stored?.equals(contentOf(bytes)), `${first} ${bytes}`).toBe(true)
        }
      }
    })
    await environment.write((target) => {
      for (const bytes of KEY_BYTES) if (bytes % 3 > 0) target.remove(keyOf(bytes, 's'))
    })
    expect(environment.rowCount()).toBe(KEY_BYTES.length + Math.floor(KEY_BYTES.length / 3))
  } finally {
    await environment.close()
  }
})

it('leaves nothing of a transaction that the library refuses, and continues with the next one', async () => {
  const environment = new LmdbEnvironment(join(await temporaryFolder(), 'a.mdb'), { create: true, flush: false })
  try {
    const refused = environment.write((target) => {
      target.put(Buffer.from('a'), Buffer.from('1'))
      target.put(Buffer.alloc(5000, 'k'), Buffer.from('2'))
    })
    await expect(refused).rejects.toMatchObject({ name: 'CommitFailedError' })
    expect(environment.rowCount()).toBe(0)
    await environment.write((target) => target.put(Buffer.from('b'), Buffer.from('3')))
    expect(
      environment.reader.read((transaction) => environment.reader.get(transaction, Buffer.from('b'))?.toString()),
    ).toBe('3')
  } finally {
    await environment.close()
  }
})
