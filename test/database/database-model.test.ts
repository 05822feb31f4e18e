import { describe, it } from 'vitest'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { compareWithNaive } from './compare-with-naive.ts'

describe('a database is what a naive one is after any edits', () => {
  it('in memory', () => compareWithNaive(new MemoryEngine(), 60))

  it('on disk', async () => compareWithNaive(await LmdbEngine.open({ folder: await temporaryFolder() }), 10))
})
