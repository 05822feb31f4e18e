/** What is backed up. */
import { CommandError } from '../command-error.ts'
import type { ServerClient } from '../server-client.ts'

export interface BackupOptions {
  /** Undefined: all of them. */
  readonly databases: readonly string[] | undefined
  readonly isFull: boolean
  readonly withSettings: boolean
}

/** The names of all databases, or those that are asked for. */
export async function databasesOf(client: ServerClient, { databases }: BackupOptions): Promise<string[]> {
  const all = await client.json('GET', '_all_dbs')
  const names = Array.isArray(all) ? all.map(String) : []
  if (!databases) return names
  const missing = databases.find((name) => !names.includes(name))
  if (missing !== undefined) throw new CommandError(`The server has no database ${missing}.`)
  return [...databases]
}
