import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { WriteTarget } from '../../../src/storage/lmdb/library/write-instructions.ts'
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const operation = fc.record({
  key: fc.oneof(fc.integer({ min: 0, max: 2000 }), fc.integer({ min: 0, max: 50 })),
  keyBytes: fc.constantFrom(0, 0, 0, 100, 1900),
  valueBytes: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constantFrom(2000, 4000, 4060, 4100, 8150, 8200, 50_000)),
  isRemoval: fc.integer({ min: 0, max: 3 }).map((number) => number === 0),
})

it('a commit never adds more to the file than was estimated', async () => {
  const folder = await temporaryFolder()
  let file = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(operation, { minLength: 1, maxLength: 300 }), { maxLength: 20 }),
      async (commits) => {
        const environment = new LmdbEnvironment(join(folder, `${file++}.mdb`), { create: true, flush: false })
        try {
          for (const operations of commits) {
            const write = (target: WriteTarget) => {
              for (const { key, keyBytes, valueBytes, isRemoval } of operations) {
                const stored = Buffer.from(`k${String(key).padStart(5, '0')}${'x'.repeat(keyBytes)}`)
                if (isRemoval) target.remove(stored)
                else target.put(stored, randomBytes(valueBytes))
              }
            }
            const { endBytes, mostBytes } = environment.estimate(write)
            await environment.write(write)
            expect(environment.endBytes() - endBytes).toBeLessThanOrEqual(mostBytes)
          }
        } finally {
          await environment.close()
        }
      },
    ),
    { numRuns: 40 },
  )
})

/** Touches so many pages that not all of them are reserved. */
function manySmallRows(target: WriteTarget): void {
  for (let row = 0; row < 3000; row++) target.put(randomBytes(20), randomBytes(300))
}

it('after a large commit there is room for another one, made when nobody waits for it', async () => {
  const path = join(await temporaryFolder(), 'large.mdb')
  const environment = new LmdbEnvironment(path, { create: true })
  for (let commit = 0; commit < 3; commit++) await environment.write(manySmallRows)
  const { endBytes, rowBytes } = environment.estimate(manySmallRows)
  await environment.close()
  expect((await stat(path)).size).toBeGreaterThanOrEqual(endBytes + rowBytes)
})

it('a file that was removed does not come back when it should grow', async () => {
  const path = join(await temporaryFolder(), 'removed.mdb')
  const environment = new LmdbEnvironment(path, { create: true })
  for (let commit = 0; commit < 2; commit++) await environment.write(manySmallRows)
  await rm(path)
  for (let commit = 0; commit < 4; commit++) await environment.write(manySmallRows).catch(() => {})
  await environment.close()
  expect(existsSync(path)).toBe(false)
})
