/** Applies the settings of a backup that differ from those of the server. Settings of the machine are not changed. */
import { isObject } from '../../encoding/json/json-value.ts'
import { type ServerClient, ServerError } from '../server-client.ts'

/** Where databases are kept is decided at the start of a server. */
const SECTIONS_OF_THE_MACHINE = new Set(['engines'])

/** Addresses, folders and the uuid of the server. */
const OF_THE_MACHINE = new Set([
  'httpd/port',
  'httpd/bind_address',
  'ssl/port',
  'service/database_dir',
  'service/engine',
  'service/view_index_dir',
  'service/uri_file',
  'service/uuid',
  'log/file',
])

export async function restoreSettings(
  client: ServerClient,
  settings: Record<string, unknown>,
): Promise<{ readonly changed: number; readonly refused: readonly string[] }> {
  const present = await client.json('GET', '_config')
  const refused: string[] = []
  let changed = 0
  // Administrators last: once there is one, requests need credentials.
  const sections = Object.keys(settings)
    .filter((section) => !SECTIONS_OF_THE_MACHINE.has(section))
    .toSorted((a, b) => Number(a === 'admins') - Number(b === 'admins'))
  for (const section of sections) {
    const values = settings[section]
    const before = isObject(present) ? present[section] : undefined
    for (const [key, value] of Object.entries(isObject(values) ? values : {})) {
      if (OF_THE_MACHINE.has(`${section}/${key}`) || (isObject(before) && before[key] === value)) continue
      try {
        await client.json('PUT', `_config/${encodeURIComponent(section)}/${encodeURIComponent(key)}?raw=true`, value)
        changed++
      } catch (error) {
        if (!(error instanceof ServerError)) throw error
        refused.push(`${section}/${key} is left as it is. ${error.message}`)
      }
    }
  }
  return { changed, refused }
}
