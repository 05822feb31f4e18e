/**
 * Where the services of black-box tests keep their data: in a folder of their own, since that is how servers run. The
 * files that `vitest.config.ts` names for it run a second time with everything in memory.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ServiceOptions } from '../../src/service.ts'
import { parentFolder } from './parent-folder.ts'
import { sharedPostgres } from './postgres.ts'

export interface StoragePlace {
  readonly options: Pick<ServiceOptions, 'dir' | 'inMemory' | 'engine'>
  remove(): Promise<void>
}

/** What the options themselves say of it wins. */
export async function storagePlace({ dir, inMemory }: ServiceOptions): Promise<StoragePlace> {
  const nothing = async () => {}
  if (dir !== undefined || inMemory) return { options: {}, remove: nothing }
  if (inMemory === undefined && process.env.SETTLE_TEST_STORE === 'memory')
    return { options: { inMemory: true }, remove: nothing }
  const folder = await mkdtemp(join(await parentFolder(), 'settle-test-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  if (inMemory === undefined && process.env.SETTLE_TEST_STORE === 'postgres') {
    // The folder holds settings and log; the databases have tables of their own.
    return { options: { dir: folder, engine: (await sharedPostgres()).address() }, remove }
  }
  return { options: { dir: folder }, remove }
}
