/** Replaces a file in one step: after a crash it is the old one or the new one, never half of it. */
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Readable for its owner alone, since settings may be secrets. On disk when it resolves. */
export async function writeWhole(path: string, text: string, mode = 0o600): Promise<void> {
  const unfinished = `${path}.new`
  const file = await open(unfinished, 'w', mode)
  try {
    await file.writeFile(text)
    await file.sync()
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  } finally {
    await file.close()
  }
  await rename(unfinished, path)
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
