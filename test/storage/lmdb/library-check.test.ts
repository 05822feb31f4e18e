import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createService } from '../../../src/service.ts'
import { checkLibrary, type Trial } from '../../../src/storage/lmdb/library/library-check.ts'
import {
  FEATURES,
  type LibraryFeature,
  libraryUse,
  setLibraryUse,
  useWithout,
} from '../../../src/storage/lmdb/library/library-use.ts'
import { SettleCommand } from '../../support/settle-command.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const ALL = useWithout([])

function trials(failing: readonly LibraryFeature[], onTrial: (feature: LibraryFeature) => void = () => {}) {
  const trial = (feature: LibraryFeature): Trial => {
    return async () => {
      onTrial(feature)
      if (failing.includes(feature)) throw new Error('It counts 3 rows where there are 4.')
    }
  }
  return {
    native_cursors: trial('native_cursors'),
    native_writes: trial('native_writes'),
    native_reads: trial('native_reads'),
    page_writer: trial('page_writer'),
    page_inspection: trial('page_inspection'),
  }
}

describe('what is used of the LMDB library beyond what it promises', () => {
  it('works with the version that is installed', async () => {
    expect(await checkLibrary(await temporaryFolder(), ALL)).toEqual({ use: ALL, problems: [] })
  })

  it('is switched off where it fails, with a sentence', async () => {
    const home = await temporaryFolder()
    const options = { trials: trials(['native_cursors', 'page_writer']), version: '1' }
    const checked = await checkLibrary(home, ALL, options)
    expect(checked.use).toEqual(useWithout(['native_cursors', 'page_writer']))
    expect(checked.problems).toEqual([
      'lmdb/native_cursors is switched off. It counts 3 rows where there are 4.',
      'lmdb/page_writer is switched off. It counts 3 rows where there are 4.',
    ])
    // Nobody is told of what is not wanted.
    expect((await checkLibrary(home, useWithout(FEATURES), options)).problems).toEqual([])
  })

  it('is tried out once for each version', async () => {
    const home = await temporaryFolder()
    const tried: LibraryFeature[] = []
    const of = (version: string) => ({ version, trials: trials(['native_reads'], (feature) => tried.push(feature)) })
    await checkLibrary(home, ALL, of('1'))
    expect(tried).toEqual(FEATURES)
    const again = await checkLibrary(home, ALL, of('1'))
    expect([tried.length, again.use.native_reads, again.problems.length]).toEqual([FEATURES.length, false, 1])
    await checkLibrary(home, ALL, of('2'))
    expect(tried).toHaveLength(2 * FEATURES.length)
  })

  it('is not used where processes did not survive the trial', async () => {
    const home = await temporaryFolder()
    const options = { trials: trials([]), version: '1' }
    await writeFile(join(home, '.library'), '{"version":"1","attempts":2}\n')
    // It may have been ended by something else.
    expect((await checkLibrary(home, ALL, options)).use).toEqual(ALL)
    await writeFile(join(home, '.library'), '{"version":"1","attempts":3}\n')
    const { use, problems } = await checkLibrary(home, ALL, options)
    expect(use).toEqual(useWithout(FEATURES))
    expect(problems[0]).toMatch(/Processes ended while it was tried out/)
  })

  it('is switched off by settings, in index processes too', async () => {
    const off = FEATURES.flatMap((feature) => ['--set', `lmdb/${feature}=false`])
    const { url: started } = new SettleCommand(['--port', '0', '--dir', await temporaryFolder(), ...off])
    const url = await started
    const put = (path: string, body?: string) => fetch(`${url}${path}`, { method: 'PUT', ...(body && { body }) })
    await put('sample')
    await put('sample/one', '{"n":1}')
    await put('sample/_design/d', '{"views":{"n":{"map":"doc => emit(doc.n, 1)","reduce":"_sum"}}}')
    const rows = await (await fetch(`${url}sample/_design/d/_view/n?reduce=false&key=1`)).text()
    expect(JSON.parse(rows).rows).toEqual([{ id: 'one', key: 1, value: 1 }])
  })

  it('is reported at the start when it fails', async () => {
    onTestFinished(() => setLibraryUse(ALL))
    const dir = await temporaryFolder()
    await checkLibrary(dir, ALL)
    const { version } = JSON.parse(await readFile(join(dir, '.library'), 'utf8'))
    await writeFile(
      join(dir, '.library'),
      JSON.stringify({ version, attempts: 0, failed: { native_writes: 'It lies.' } }),
    )
    const service = await createService({ dir, port: 0 })
    expect(libraryUse()).toEqual(useWithout(['native_writes']))
    await service.close()
    const log = await readFile(join(dir, 'settle.log'), 'utf8')
    expect(log).toMatch(/does not work as expected.*lmdb\/native_writes is switched off. It lies/)
  })
})
