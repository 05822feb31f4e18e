import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type EnvironmentOptions, LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'
import { FileDamagedError } from '../../../src/storage/storage-error.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { atWork, GROWN_ROWS, ROW_BYTES, rowKey, startOther } from './other-process.ts'

const KEY = Buffer.from('key')
const OLD = Buffer.from('old')

/** A file with one row. */
async function fileWithRow(): Promise<string> {
  const path = join(await temporaryFolder(), 'store.mdb')
  const environment = new LmdbEnvironment(path, { create: true, flush: false })
  await environment.write((target) => target.put(KEY, OLD))
  await environment.close()
  return path
}

function openFor(path: string, options: EnvironmentOptions = {}): LmdbEnvironment {
  const environment = new LmdbEnvironment(path, { isShared: true, flush: false, ...options })
  onTestFinished(() => environment.close())
  return environment
}

describe('an LMDB file that two processes have open', () => {
  it.each([{ isReadOnly: false }, { isReadOnly: true }])(
    'is read in one while it grows in the other: %o',
    async (how) => {
      const path = await fileWithRow()
      const environment = openFor(path, how)
      const held = environment.reader.beginRead()
      const before = statSync(path).size
      const other = startOther('grow', path)
      const exited = once(other, 'exit')
      let isOver = false
      exited.then(() => {
        isOver = true
      })
      await atWork(other)
      for (let row = 0; !isOver; ) {
        const value = environment.reader.read((transaction) => environment.reader.get(transaction, rowKey(row)))
        if (value === undefined) await nextTurn()
        else expect(value.equals(Buffer.alloc(ROW_BYTES, row++))).toBe(true)
      }
      expect(await exited).toEqual([0, null])
      expect(statSync(path).size).toBeGreaterThan(before + GROWN_ROWS * ROW_BYTES)
      const last = GROWN_ROWS - 1
      expect(environment.reader.read((transaction) => environment.reader.get(transaction, rowKey(last)))?.length).toBe(
        ROW_BYTES,
      )
      // The state from before is as it was, though the file lies elsewhere in memory by now.
      expect(environment.reader.get(held, KEY)?.equals(OLD)).toBe(true)
      expect(environment.reader.get(held, rowKey(0))).toBeUndefined()
      environment.reader.endRead(held)
    },
  )

  it('uses pages again that a killed process had read', async () => {
    const path = await fileWithRow()
    const environment = openFor(path)
    const other = startOther('hold', path)
    await atWork(other)
    const rewrite = async () => {
      for (let round = 0; round < 300; round++) {
        await environment.write((target) => target.put(KEY, Buffer.alloc(ROW_BYTES, round)))
      }
      return statSync(path).size
    }
    const heldSize = await rewrite()
    const exited = once(other, 'exit')
    other.kill('SIGKILL')
    await exited
    environment.clearReaders()
    const size = await rewrite()
    expect(await rewrite()).toBe(size)
    // With the slot of the dead process each of the rounds would have taken new pages.
    expect(size).toBeLessThan(2 * heldSize)
  })

  it('is written after the process was killed that wrote to it', async () => {
    const path = await fileWithRow()
    const environment = openFor(path)
    for (let kill = 0; kill < 5; kill++) {
      const other = startOther('write', path)
      await atWork(other)
      const exited = once(other, 'exit')
      other.kill('SIGKILL')
      // It waits for the lock that the other has, or had.
      await environment.write((target) => target.put(KEY, Buffer.from(`kill ${kill}`)))
      await exited
      expect(environment.reader.read((transaction) => environment.reader.get(transaction, KEY))?.toString()).toBe(
        `kill ${kill}`,
      )
      const rows = environment.reader.read((transaction) =>
        Array.from({ length: 200 }, (_, row) => environment.reader.get(transaction, rowKey(row))?.[0]),
      )
      expect(new Set(rows).size).toBe(1)
    }
  })
})

describe('an LMDB file that is gone', () => {
  it.each([{}, { isReadOnly: true }])('is not created by opening it: %o', async (options) => {
    const path = join(await temporaryFolder(), 'gone.mdb')
    expect(() => new LmdbEnvironment(path, options)).toThrow(FileDamagedError)
    expect(existsSync(path)).toBe(false)
    expect(existsSync(`${path}-lock`)).toBe(false)
  })
})
