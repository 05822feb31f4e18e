/** Databases as a whole. */
import { ApiError, path, requestJson, requestText } from './client.ts'

export interface DatabaseInformation {
  readonly db_name: string
  readonly doc_count: number
  readonly doc_del_count: number
  readonly update_seq: number | string
  readonly purge_seq: number
  readonly compact_running: boolean
  readonly disk_size: number
  readonly data_size: number
}

/** A database of the list; without information where the reader has no right to it, or its file is damaged. */
export interface ListedDatabase {
  readonly name: string
  readonly information: DatabaseInformation | undefined
  readonly problem: string | undefined
}

/** More names than anybody reads; the search queries the server. */
const MOST_NAMES = 2_000
const AT_A_TIME = 100

export interface DatabaseList {
  readonly databases: readonly ListedDatabase[]
  readonly isCut: boolean
}

/** Names that begin with `prefix`, with their numbers. */
export async function listDatabases(prefix: string, isAdmin: boolean): Promise<DatabaseList> {
  const range = prefix === '' ? {} : { startkey: JSON.stringify(prefix), endkey: JSON.stringify(`${prefix}\u{10ffff}`) }
  const found = await requestJson<string[]>('_all_dbs', { query: { limit: MOST_NAMES + 1, ...range } })
  const names = found.filter((name) => name.startsWith(prefix)).slice(0, MOST_NAMES)
  const databases: ListedDatabase[] = []
  for (let at = 0; at < names.length; at += AT_A_TIME) {
    const some = names.slice(at, at + AT_A_TIME)
    if (isAdmin) databases.push(...(await informationOfMany(some)))
    // Without the right to ask for many at once, each is a request of its own.
    else if (at === 0) databases.push(...(await Promise.all(some.map(informationOfOne))))
    else databases.push(...some.map((name) => ({ name, information: undefined, problem: undefined })))
  }
  return { databases, isCut: found.length > MOST_NAMES }
}

interface InformationEntry {
  readonly key: string
  readonly info?: DatabaseInformation
  readonly error?: string
  readonly reason?: string
}

async function informationOfMany(names: readonly string[]): Promise<ListedDatabase[]> {
  const entries = await requestJson<InformationEntry[]>('_dbs_info', { method: 'POST', json: { keys: names } })
  return entries.map(({ key, info, error, reason }) => ({
    name: key,
    information: info,
    problem: info ? undefined : (reason ?? error),
  }))
}

async function informationOfOne(name: string): Promise<ListedDatabase> {
  try {
    return { name, information: await databaseInformation(name), problem: undefined }
  } catch (error) {
    if (error instanceof ApiError) return { name, information: undefined, problem: error.reason }
    throw error
  }
}

export function databaseInformation(name: string): Promise<DatabaseInformation> {
  return requestJson(path(name))
}

export async function createDatabase(name: string): Promise<void> {
  await requestText(path(name), { method: 'PUT' })
}

export async function deleteDatabase(name: string): Promise<void> {
  await requestText(path(name), { method: 'DELETE' })
}

/** The error that the server would answer for the name. */
export function nameProblem(name: string): string | undefined {
  if (name === '' || name === '_users' || name === '_replicator') return undefined
  if (!/^[a-z]/.test(name)) return 'A name must begin with a lower-case letter.'
  if (!/^[a-z0-9_$()+/-]+$/.test(name)) return 'Lower-case letters, digits and _ $ ( ) + - / are allowed.'
  return undefined
}
