import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { StrippedSources } from '../../../src/functions/sandbox/stripped-sources.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const SOURCE = 'export const one: number = 1\n'
const STRIPPED = 'export const one         = 1\n'

it('are stripped once for all processes', async () => {
  const folder = await temporaryFolder()
  const first = new StrippedSources(folder)
  expect(first.strip(SOURCE)).toBe(STRIPPED)
  first.save()
  const [name = ''] = readdirSync(folder)
  const file = join(folder, name)
  // A mark shows who took it from there.
  writeFileSync(file, readFileSync(file, 'utf8').replace('= 1', '= 2'))
  const second = new StrippedSources(folder)
  expect(second.strip(SOURCE)).toBe(STRIPPED.replace('1', '2'))
  expect(second.strip(SOURCE.replace('1', '3'))).toBe(STRIPPED.replace('1', '3'))
  second.save()
  expect(readdirSync(folder)).toEqual([name])
  expect(new StrippedSources(folder).strip(SOURCE)).toBe(STRIPPED.replace('1', '2'))
})

it.each(['', '{}', '[1,[2],["a",3]]', '[["a"'])('are stripped again when the file holds %j', async (text) => {
  const folder = await temporaryFolder()
  const first = new StrippedSources(folder)
  first.strip(SOURCE)
  first.save()
  const [name = ''] = readdirSync(folder)
  writeFileSync(join(folder, name), text)
  expect(new StrippedSources(folder).strip(SOURCE)).toBe(STRIPPED)
})

it('need no folder', async () => {
  for (const folder of [undefined, join(await temporaryFolder(), 'missing')]) {
    const sources = new StrippedSources(folder)
    expect(sources.strip(SOURCE)).toBe(STRIPPED)
    sources.save()
  }
})
