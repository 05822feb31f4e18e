/** Replaces a file atomically: after a crash either the old one or the new one is there. */
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { flush } from '../../storage/files/store-file.ts'

export async function replaceFile(folder: string, name: string, text: string, mode = 0o666): Promise<void> {
  const path = join(folder, name)
  await writeFile(`${path}.new`, text, { mode })
  await flush(`${path}.new`)
  await rename(`${path}.new`, path)
  await flush(folder)
}
