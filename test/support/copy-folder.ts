/** Copies a data folder as a server left it that was killed: its sockets are of no use to another one, and cannot be copied. */
import { cp, lstat } from 'node:fs/promises'

export async function copyFolder(source: string, target: string): Promise<void> {
  await cp(source, target, { recursive: true, filter: async (path) => !(await lstat(path)).isSocket() })
}
