/**
 * The settings of another server that mean the same here. Ports, folders, handlers and whatever else belongs to the machine
 * or to the release of the other server are left alone.
 */
import { isObject } from '../../encoding/json/json-value.ts'
import { messageOf } from '../command-error.ts'
import { type ServerClient, ServerError } from '../server-client.ts'
import type { LeftOut } from './import-report.ts'

/** Sections that are taken over whole, and keys of others. Newer releases have some of them in other sections. */
const WHOLE_SECTIONS = [
  'cors',
  'csp',
  'vhosts',
  'jwt_keys',
  'jwt_auth',
  'oauth_consumer_secrets',
  'oauth_token_secrets',
  'oauth_token_users',
]
const KEYS: readonly (readonly [from: string, keys: readonly string[], to?: string])[] = [
  ['attachments', ['compression_level', 'compressible_types']],
  ['couchdb', ['max_document_size', 'max_attachment_size', 'os_process_timeout']],
  [
    'couch_httpd_auth',
    ['allow_persistent_cookies', 'public_fields', 'require_valid_user', 'same_site', 'timeout', 'users_db_public'],
  ],
  ['chttpd_auth', ['allow_persistent_cookies', 'same_site', 'timeout'], 'couch_httpd_auth'],
  ['chttpd', ['require_valid_user'], 'couch_httpd_auth'],
  ['chttpd', ['enable_cors'], 'httpd'],
  ['httpd', ['enable_cors', 'secure_rewrites', 'vhost_global_handlers']],
  ['query_server_config', ['reduce_limit', 'partition_query_limit']],
  [
    'replicator',
    [
      'worker_batch_size',
      'worker_processes',
      'http_connections',
      'connection_timeout',
      'retries_per_request',
      'checkpoint_interval',
      'use_checkpoints',
      'max_jobs',
      'interval',
      'max_churn',
      'max_history',
    ],
  ],
  ['uuids', ['algorithm', 'utc_id_suffix', 'max_count']],
]

type Sections = Readonly<Record<string, Readonly<Record<string, string>>>>

export interface ImportedSettings {
  readonly set: readonly string[]
  readonly leftOut: readonly LeftOut[]
}

/** Administrators come last: with the first one, anonymous users lose their rights. */
export async function importSettings(source: ServerClient, target: ServerClient): Promise<ImportedSettings> {
  const theirs = await settingsOf(source)
  if (typeof theirs === 'string') return { set: [], leftOut: [{ what: 'settings', why: theirs }] }
  const ours = await settingsOf(target)
  if (typeof ours === 'string') return { set: [], leftOut: [{ what: 'settings', why: `of the target: ${ours}` }] }
  const set: string[] = []
  const leftOut: LeftOut[] = []
  for (const { section, key, value } of wanted(theirs)) {
    const name = `${section}/${key}`
    const isAdmin = section === 'admins'
    const own = valueIn(ours, section, key)
    if (own === value) continue
    if (isAdmin && own !== undefined) {
      leftOut.push({ what: name, why: 'An administrator of this name exists.' })
      continue
    }
    try {
      await target.json('PUT', `_config/${encodeURIComponent(section)}/${encodeURIComponent(key)}`, value)
      set.push(name)
    } catch (error) {
      leftOut.push({ what: name, why: messageOf(error) })
    }
  }
  return { set, leftOut }
}

function* wanted(sections: Sections): Generator<{ section: string; key: string; value: string }> {
  for (const section of WHOLE_SECTIONS) {
    for (const [key, value] of Object.entries(sections[section] ?? {})) yield { section, key, value }
  }
  for (const [from, keys, to = from] of KEYS) {
    for (const key of keys) {
      const value = valueIn(sections, from, key)
      if (value !== undefined && value !== '') yield { section: to, key, value }
    }
  }
  for (const [key, value] of Object.entries(sections.admins ?? {})) yield { section: 'admins', key, value }
}

/** Sections of a Settle have names of their own. */
function valueIn(sections: Sections, section: string, key: string): string | undefined {
  const own = section.replace(/^couchdb$/, 'service').replace(/^couch_/, 'service_')
  return sections[own]?.[key] ?? sections[section]?.[key]
}

/** Or why they cannot be read. Releases before 2 have them at the top. */
async function settingsOf(server: ServerClient): Promise<Sections | string> {
  let reason = ''
  for (const path of ['_node/_local/_config', '_config']) {
    try {
      const value = await server.json('GET', path)
      if (isObject(value)) return sectionsIn(value)
    } catch (error) {
      if (!(error instanceof ServerError)) throw error
      reason = error.message
    }
  }
  return reason === '' ? 'They are not an object.' : reason
}

function sectionsIn(value: Readonly<Record<string, unknown>>): Sections {
  return Object.fromEntries(
    Object.entries(value).map(([section, keys]) => [section, isObject(keys) ? textsIn(keys) : {}]),
  )
}

function textsIn(keys: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(keys).flatMap(([key, text]) => (typeof text === 'string' ? [[key, text]] : [])),
  )
}
