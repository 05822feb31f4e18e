import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createService } from '../../src/service.ts'
import { bringUpToDate, FORMAT_VERSION, readFormat } from '../../src/storage/files/folder-format.ts'
import { contentsOf } from '../commands/compare-databases.ts'
import { runSettle } from '../commands/run-settle.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { VIEW } from './sample-names.ts'

const formats = Array.from({ length: FORMAT_VERSION }, (_, i) => String(i + 1))

/** The sample folder of a format, as the release that wrote it left it. */
async function folderOf(format: string): Promise<string> {
  const source = join(import.meta.dirname, format)
  const dir = await temporaryFolder()
  for (const file of await readdir(source, { recursive: true })) {
    if (!file.endsWith('.gz')) continue
    const path = join(dir, file.slice(0, -'.gz'.length))
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, gunzipSync(await readFile(join(source, file))))
  }
  return dir
}

describe('a data folder', () => {
  it.each(formats)('of format %s serves what it held, and is whole', async (format) => {
    const dir = await folderOf(format)
    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const url = await service.listen()
    const expected: [string, [string, string][]][] = JSON.parse(await readFile(join(dir, 'contents.json'), 'utf8'))
    for (const [name, contents] of expected) expect(await contentsOf(url, name)).toEqual(new Map(contents))
    const { rows } = JSON.parse(await (await fetch(`${url}${VIEW}`)).text())
    expect(rows.map(({ value }: { value: number }) => value)).toEqual([3, 29, 29, 29, 29, 28, 28, 28])
    expect((await fetch(`${url}sample/after`, { method: 'PUT', body: '{}' })).status).toBe(201)
    await service.close()
    expect(await readFormat(dir)).toBe(FORMAT_VERSION)
    expect(await runSettle(['check', '--dir', dir])).toMatchObject({ code: 0 })
  })

  it('of a later format is left alone, with a sentence', async () => {
    const dir = await folderOf('1')
    await writeFile(join(dir, 'format'), `settle data folder, format ${FORMAT_VERSION + 1}\n`)
    const sentence = `has format ${FORMAT_VERSION + 1}; this release reads formats up to ${FORMAT_VERSION}. It was written by a later release`
    await expect(createService({ dir, port: 0 })).rejects.toThrow(sentence)
    expect(await runSettle(['check', '--dir', dir])).toMatchObject({ code: 1, err: expect.stringContaining(sentence) })
    expect(await readFile(join(dir, 'format'), 'utf8')).toContain(String(FORMAT_VERSION + 1))
  })

  it('of an older format is upgraded step by step, and resumes after an interruption', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'format'), 'settle data folder, format 2\n')
    const done: number[] = []
    let fails = true
    const steps = new Map(
      [2, 3, 4].map((from) => [
        from,
        async () => {
          if (from === 3 && fails) throw new Error('The disk is full.')
          done.push(from)
        },
      ]),
    )
    const later = { version: 5, oldest: 2, steps }
    await expect(bringUpToDate(dir, later)).rejects.toThrow('The disk is full.')
    expect(await readFormat(dir)).toBe(3)
    fails = false
    await bringUpToDate(dir, later)
    expect([await readFormat(dir), done]).toEqual([5, [2, 3, 4]])
  })

  it('of an older format keeps what it holds when a step has changed its files', async () => {
    const dir = await folderOf('1')
    // As an earlier format might have had it: files under other names.
    const older = join(dir, 'older')
    await mkdir(older)
    const files = (await readdir(dir)).filter((name) => name.endsWith('.mdb'))
    for (const file of files) await rename(join(dir, file), join(older, file))
    await writeFile(join(dir, 'format'), 'settle data folder, format 0\n')
    let interruptions = 2
    const step = async (folder: string) => {
      for (const file of await readdir(join(folder, 'older'))) {
        await rename(join(folder, 'older', file), join(folder, file))
        if (interruptions-- > 0) throw new Error('The power is gone.')
      }
    }
    const formats = { version: FORMAT_VERSION, oldest: 0, steps: new Map([[0, step]]) }
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(bringUpToDate(dir, formats)).rejects.toThrow('The power is gone.')
      expect(await readFormat(dir)).toBe(0)
      // This release does not know the step, and must not use what is half done.
      await expect(createService({ dir, port: 0 })).rejects.toThrow('has format 0')
    }
    await bringUpToDate(dir, formats)
    expect((await readdir(dir)).filter((name) => name.endsWith('.mdb')).toSorted()).toEqual(files.toSorted())
    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const url = await service.listen()
    const expected: [string, [string, string][]][] = JSON.parse(await readFile(join(dir, 'contents.json'), 'utf8'))
    for (const [name, contents] of expected) expect(await contentsOf(url, name)).toEqual(new Map(contents))
  })

  it('of a format that is too old is refused, with a sentence', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'format'), 'settle data folder, format 1\n')
    const later = { version: 5, oldest: 3, steps: new Map() }
    await expect(bringUpToDate(dir, later)).rejects.toThrow(
      'has format 1; this release brings formats from 3 on up to date. Start a release in between first',
    )
    expect(await readFormat(dir)).toBe(1)
  })

  it('whose format cannot be read is refused', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'format'), 'something else\n')
    await expect(createService({ dir, port: 0 })).rejects.toThrow('is not one of this server')
  })
})
