/** A commit is made for the state on disk, also where another process wrote it. */
import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

it('is stale when another process has committed since, whatever this one wrote last', async () => {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder })
  try {
    const store = await engine.create('test')
    await store.commit({ puts: [[Buffer.from('a'), Buffer.from('1')]] })
    using snapshot = store.snapshot()
    const expected = await snapshot.version()
    const source = `
      import { LmdbEngine } from ${JSON.stringify(resolve(import.meta.dirname, '../../../src/storage/lmdb/lmdb-engine.ts'))}
      const engine = await LmdbEngine.open({ folder: ${JSON.stringify(folder)} })
      const store = await engine.open('test')
      await store.commit({ puts: [[Buffer.from('a'), Buffer.from('2')]] })
      await engine.close()
    `
    await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', source])
    const puts = [[Buffer.from('a'), Buffer.from('3')]] as const
    expect(await store.commit({ puts, expected })).toMatchObject({ outcome: 'stale' })
    expect(await store.commit({ puts, expected: expected + 1 })).toMatchObject({ outcome: 'committed' })
  } finally {
    await engine.close()
  }
})
