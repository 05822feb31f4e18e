import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { FileDamagedError } from '../../../src/storage/storage-error.ts'
import type { Put } from '../../../src/storage/store.ts'
import { damage, scrambleLeaves } from './damages.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'settle-aside-'))
  const engine = await LmdbEngine.open({ folder })
  for (const name of ['victim', 'whole']) {
    const puts = Array.from({ length: 500 }, (_, i): Put => [Buffer.from(`key ${i}`), Buffer.alloc(200)])
    await (await engine.create(name)).commit({ puts })
  }
  await engine.close()
})

afterEach(async () => rm(folder, { recursive: true, force: true }))

function fileOf(name: string): string {
  return readdirSync(folder).find((each) => each.startsWith(`${name}.`) && each.endsWith('.mdb'))!
}

/** As a process that fell leaves it. */
function leaveLedger(...lines: string[]): void {
  writeFileSync(join(folder, '.open-files'), lines.map((line) => `${line}\n`).join(''))
}

async function isUsable(engine: LmdbEngine, name: string): Promise<boolean> {
  const store = await engine.open(name)
  try {
    using snapshot = store.snapshot()
    await snapshot.version()
    return true
  } catch (error) {
    expect(error).toBeInstanceOf(FileDamagedError)
    return false
  }
}

describe('a file over which a process fell', () => {
  it('is looked at page by page at the next start, and set aside where it is damaged', async () => {
    damage(join(folder, fileOf('victim')), scrambleLeaves)
    leaveLedger(`+${fileOf('whole')}`, `=${fileOf('whole')}`, `+${fileOf('victim')}`, `=${fileOf('victim')}`)
    const damaged: string[] = []
    const engine = await LmdbEngine.open({
      folder,
      reports: { damaged: ({ message }) => damaged.push(message), repaired: () => {} },
    })
    await engine.inspect()
    expect(damaged).toEqual([
      expect.stringMatching(/The node \d+ of the page \d+ is damaged\. It is set aside: .*set-aside/),
    ])
    expect(await isUsable(engine, 'victim')).toBe(false)
    expect(await isUsable(engine, 'whole')).toBe(true)
    await engine.close()
    expect(existsSync(join(folder, '.open-files'))).toBe(false)
  })

  it('stays set aside until somebody removes the note, or the store is dropped', async () => {
    damage(join(folder, fileOf('victim')), scrambleLeaves)
    leaveLedger(`=${fileOf('victim')}`)
    for (let start = 0; start < 2; start++) {
      const engine = await LmdbEngine.open({ folder })
      await engine.inspect()
      expect(await isUsable(engine, 'victim')).toBe(false)
      await engine.close()
    }
    const note = join(folder, `${fileOf('victim')}.set-aside`)
    await rm(note)
    const engine = await LmdbEngine.open({ folder })
    await engine.inspect()
    expect(await isUsable(engine, 'victim')).toBe(true)
    await expect(engine.examine('victim')).rejects.toThrow(FileDamagedError)
    expect(existsSync(note)).toBe(true)
    await engine.drop('victim')
    await engine.create('victim')
    expect(await isUsable(engine, 'victim')).toBe(true)
    await engine.close()
    expect(existsSync(note)).toBe(false)
  })

  it('is set aside when it happened twice while it was opened, whatever its pages look like', async () => {
    leaveLedger(`=${fileOf('whole')}`, `+${fileOf('victim')}`)
    const first = await LmdbEngine.open({ folder })
    // It falls again, before anything else was done.
    leaveLedger(`!${fileOf('victim')}`, `+${fileOf('victim')}`)
    const second = await LmdbEngine.open({ folder })
    expect(await isUsable(second, 'victim')).toBe(false)
    expect(await isUsable(second, 'whole')).toBe(true)
    await second.close()
    await first.close()
  })

  it('is walked to its end after a second fall, where the first walk did not get there', async () => {
    damage(join(folder, fileOf('victim')), scrambleLeaves)
    leaveLedger(`=${fileOf('victim')}`)
    // The first page is sound.
    const first = await LmdbEngine.open({ folder, suspectPages: 1 })
    await first.inspect()
    const ledger = readFileSync(join(folder, '.open-files'), 'utf8')
    expect(existsSync(join(folder, `${fileOf('victim')}.set-aside`))).toBe(false)
    await first.close()
    leaveLedger(ledger.trim(), `=${fileOf('victim')}`)
    const second = await LmdbEngine.open({ folder, suspectPages: 1 })
    await second.inspect()
    expect(await isUsable(second, 'victim')).toBe(false)
    expect(await isUsable(second, 'whole')).toBe(true)
    await second.close()
  })

  it('is innocent when it was opened in between', async () => {
    leaveLedger(`!${fileOf('victim')}`, `+${fileOf('victim')}`, `=${fileOf('victim')}`, `-${fileOf('victim')}`)
    const engine = await LmdbEngine.open({ folder })
    expect(await isUsable(engine, 'victim')).toBe(true)
    await engine.close()
  })
})
