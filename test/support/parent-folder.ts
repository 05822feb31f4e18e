/** Where tests put the folders of their servers. */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { tmpdir } from 'node:os'

/** Memory that looks like a disk where the system has it: no test of the interface needs a real flush. */
export async function parentFolder(): Promise<string> {
  const shared = '/dev/shm'
  return access(shared, constants.W_OK).then(
    () => shared,
    () => tmpdir(),
  )
}
