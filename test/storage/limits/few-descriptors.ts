/**
 * Opens a store with no file descriptor left, with one, with two and so on. Each time it opens, or fails with an error
 * that says why. Ends with code 0 if that is so. Run under a low limit: node few-descriptors.ts <folder>
 */
import assert from 'node:assert/strict'
import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { NoDescriptorsError } from '../../../src/storage/storage-error.ts'

async function checkFewDescriptors(folder: string): Promise<void> {
  const first = await LmdbEngine.open({ folder })
  await first.create('store')
  await first.close()
  let opened = 0
  for (let left = 0; left < 16; left++) {
    const engine = await LmdbEngine.open({ folder })
    const taken = takeAllBut(left)
    try {
      const store = await engine.open('store')
      using snapshot = store.snapshot()
      assert.equal(await snapshot.version(), 0)
      opened++
    } catch (error) {
      if (!(error instanceof NoDescriptorsError)) throw error
    } finally {
      for (const descriptor of taken) closeSync(descriptor)
    }
    await engine.close()
  }
  assert(opened > 4 && opened < 12, `It opens when there are enough: ${opened} times.`)
}

function takeAllBut(left: number): number[] {
  const taken: number[] = []
  try {
    for (;;) taken.push(openSync(devNull, 'r'))
  } catch {
    for (const descriptor of taken.splice(0, left)) closeSync(descriptor)
    return taken
  }
}

if (import.meta.main) await checkFewDescriptors(process.argv[2] ?? '')
