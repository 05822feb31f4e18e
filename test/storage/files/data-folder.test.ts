import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { DataFolder } from '../../../src/storage/files/data-folder.ts'
import { DataFolderError } from '../../../src/storage/storage-error.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

describe('a data folder', () => {
  it('is created when it is missing, and records its format', async () => {
    const path = join(await temporaryFolder(), 'a', 'b')
    const folder = await DataFolder.open(path)
    expect(await readFile(join(path, 'format'), 'utf8')).toBe('settle data folder, format 1\n')
    folder.close()
  })

  it('belongs to one at a time', async () => {
    const path = await temporaryFolder()
    const folder = await DataFolder.open(path)
    await expect(DataFolder.open(path)).rejects.toThrow(DataFolderError)
    folder.close()
    const again = await DataFolder.open(path)
    again.close()
  })

  it.each(['settle data folder, format 2\n', 'something else', ''])(
    'is left alone when its format is %j',
    async (text) => {
      const path = await temporaryFolder()
      await writeFile(join(path, 'format'), text)
      await expect(DataFolder.open(path)).rejects.toThrow(DataFolderError)
      await rm(join(path, 'format'))
      const folder = await DataFolder.open(path)
      folder.close()
    },
  )
})
