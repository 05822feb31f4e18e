/** A folder of its own for a test, gone when the test ends. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

export async function temporaryFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'settle-test-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}
