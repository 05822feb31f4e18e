import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'
import type { WriteTarget } from '../../../src/storage/lmdb/write-instructions.ts'
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
