/**
 * Where the services of black-box tests keep their data: in a folder of their own, since that is how servers run. The
 * files that `vitest.config.ts` names for it run a second time with everything in memory.
 */
import { constants } from 'node:fs'
import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServiceOptions } from '../../src/service.ts'

export interface StoragePlace {
  readonly options: Pick<ServiceOptions, 'dir' | 'inMemory'>
  remove(): Promise<void>
}

/** What the options themselves say of it wins. */
export async function storagePlace({ dir, inMemory }: ServiceOptions): Promise<StoragePlace> {
  const nothing = async () => {}
  if (dir !== undefined || inMemory) return { options: {}, remove: nothing }
  if (inMemory === undefined && process.env.SETTLE_TEST_STORE === 'memory')
    return { options: { inMemory: true }, remove: nothing }
  const folder = await mkdtemp(join(await parentFolder(), 'settle-test-'))
  return { options: { dir: folder }, remove: () => rm(folder, { recursive: true, force: true }) }
}

/** Memory that looks like a disk where the system has it: no test of the interface needs a real flush. */
export async function parentFolder(): Promise<string> {
  const shared = '/dev/shm'
  return access(shared, constants.W_OK).then(
    () => shared,
    () => tmpdir(),
  )
}
