import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { UnfinishedFile } from '../../../src/storage/files/replacement-file.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

it('leaves nothing beside a file that is published, also where the process is killed then', async () => {
  const folder = await temporaryFolder()
  await using file = await UnfinishedFile.begin(join(folder, 'store.2.mdb'))
  expect((await readdir(folder)).sort()).toEqual(['store.2.mdb.new', 'store.2.mdb.new-lock'])
  await file.publish()
  expect(await readdir(folder)).toEqual(['store.2.mdb'])
})
