/** Which databases are backed up, and the request for the frames of one. */
import { CommandError } from '../command-error.ts'
import { databasePath, type ServerClient, ServerError } from '../server-client.ts'

export interface BackupOptions {
  /** Undefined for all of them. */
  readonly databases: readonly string[] | undefined
  readonly isFull: boolean
  readonly withSettings: boolean
}

/** The names of all databases, or of those in the options. */
export async function databasesOf(client: ServerClient, { databases }: BackupOptions): Promise<string[]> {
  const all = await client.json('GET', '_all_dbs')
  const names = Array.isArray(all) ? all.map(String) : []
  if (!databases) return names
  const missing = databases.find((name) => !names.includes(name))
  if (missing !== undefined) throw new CommandError(`The server has no database ${missing}.`)
  return [...databases]
}

/** The frames of a database; undefined where it was deleted after the list was made. */
export async function openBackup(
  client: ServerClient,
  name: string,
  query: string,
): Promise<AsyncIterable<Buffer> | undefined> {
  try {
    return await client.stream(`${databasePath(name)}/_backup${query}`)
  } catch (error) {
    if (!(error instanceof ServerError) || error.status !== 404) throw error
    if ((await client.find(databasePath(name))) === undefined) return undefined
    throw new CommandError(`${client.url} does not know _backup: it is not a Settle, or an older one.`)
  }
}
