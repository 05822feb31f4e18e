/**
 * What a setting must be so that the server can work with it. Only where a wrong value would stop something: all other
 * settings are taken as they are.
 */
import { isIP } from 'node:net'
import { isDatabaseName } from '../document/database-name.ts'
import { parseAddress } from '../storage/postgres/engine-address.ts'
import { isNamePattern } from '../storage/routed/name-patterns.ts'
import { listedHandlers, parseTerm } from './term-text.ts'

/** The setting is refused; the message says why. */
export class SettingError extends Error {
  override readonly name = 'SettingError'
}

/** What is wrong with a value, or undefined. */
export function problemWith(section: string, key: string, value: string): string | undefined {
  if (section === ENGINES) return problemWithEngine(key, value)
  const rule = RULES[`${section}/${key}`]
  if (!rule || rule.holds(value)) return undefined
  return `The setting ${section}/${key} must be ${rule.wanted}.`
}

/** The section that says in which engine databases are created, by patterns of their names. */
export const ENGINES = 'engines'

/** The value that means the data folder. */
export const FILES = 'files'

/** No part of an address is in the answer. */
function problemWithEngine(pattern: string, value: string): string | undefined {
  if (!isNamePattern(pattern)) {
    return `In [${ENGINES}], ${JSON.stringify(pattern)} is not a name of databases, or a pattern of names with *.`
  }
  if (value === FILES) return undefined
  try {
    parseAddress(value)
    return undefined
  } catch {
    return `The setting ${ENGINES}/${pattern} must be ${FILES}, or an address such as postgres://user:password@host:port/database.`
  }
}

/** Names that would not come back from a file as they are. */
export function checkSettingName(section: string, key: string): void {
  if (section === '' || /[\]\p{Cc}]/u.test(section) || section !== section.trim()) {
    throw new SettingError('A section is a text of one line without a closing bracket.')
  }
  if (key === '' || /[=\p{Cc}]/u.test(key) || /^[[;]/.test(key) || key !== key.trim()) {
    throw new SettingError(
      'A key is a text of one line that has no equals sign and begins with no bracket or semicolon.',
    )
  }
}

interface Rule {
  readonly wanted: string
  holds(value: string): boolean
}

const isInteger = (value: string) => /^\d{1,15}$/.test(value)
const count: Rule = { wanted: 'a number of digits only', holds: isInteger }
const MOST_NODES = 64
/** Leaves a number to the machine. */
export const AUTO = 'auto'
const nodes: Rule = {
  wanted: `a number from 1 to ${MOST_NODES}, or ${AUTO}`,
  holds: (value) => value === AUTO || (isInteger(value) && Number(value) > 0 && Number(value) <= MOST_NODES),
}
const positive: Rule = { wanted: 'a number above zero', holds: (value) => isInteger(value) && Number(value) > 0 }
const sizeLimit: Rule = {
  wanted: 'a number above zero, or infinity',
  holds: (value) => value === 'infinity' || positive.holds(value),
}
const countOrInfinity: Rule = {
  wanted: 'a number of digits only, or infinity',
  holds: (value) => value === 'infinity' || isInteger(value),
}
const bytesOrShare: Rule = {
  wanted: 'a number of bytes, or a share of the memory from 1% to 100%',
  holds: (value) => /^([1-9]\d{0,14}|[1-9]\d?%|100%)$/.test(value),
}
const port: Rule = {
  wanted: 'a port, a number from 0 to 65535',
  holds: (value) => isInteger(value) && Number(value) <= 65535,
}
const databaseName: Rule = { wanted: 'the name of a database', holds: isDatabaseName }
const address: Rule = { wanted: 'an IP address', holds: (value) => isIP(value) !== 0 }
const term: Rule = {
  wanted: 'a list such as [{name, value}]',
  holds: (value) => parseTerm(value)?.kind === 'list',
}
const samples: Rule = {
  wanted: 'a list of seconds such as [0, 60, 300, 900]',
  holds: (value) => {
    const list = parseTerm(value)
    return list?.kind === 'list' && list.items.every(({ kind, text }) => kind === 'number' && isInteger(text))
  },
}

/** Otherwise nobody could log in to change the setting back. */
const handlers: Rule = {
  wanted: 'a list of handlers such as {service_httpd_auth, cookie_authentication_handler} or just cookie',
  holds: (value) => {
    const words = listedHandlers(value)
    return words.length > 0 && words.every((word) => HANDLER_WORDS.has(word))
  },
}
const HANDLER_WORDS = new Set(['cookie', 'default', 'jwt', 'null', 'oauth', 'proxy', 'special'])

/** It goes into the head of replies as it is. */
const headerText: Rule = { wanted: 'plain text of one line', holds: (value) => /^[\x20-\x7e]+$/.test(value) }

function oneOf(...words: readonly string[]): Rule {
  return { wanted: `one of ${words.join(', ')}`, holds: (value) => words.includes(value) }
}

function between(lowest: number, highest: number): Rule {
  return {
    wanted: `a number from ${lowest} to ${highest}`,
    holds: (value) => isInteger(value) && Number(value) >= lowest && Number(value) <= highest,
  }
}

const RULES: Readonly<Record<string, Rule>> = {
  'attachments/compression_level': between(0, 9),
  'compaction_daemon/check_interval': positive,
  'compaction_daemon/min_file_size': count,
  'cors/credentials_for_any_origin': oneOf('true', 'false'),
  'cors/max_age': count,
  'csp/attachments_enable': oneOf('true', 'false'),
  'csp/attachments_header_value': headerText,
  'csp/showlist_enable': oneOf('true', 'false'),
  'csp/showlist_header_value': headerText,
  'csp/utils_enable': oneOf('true', 'false'),
  'csp/utils_header_value': headerText,
  'httpd/accept_request_id': oneOf('true', 'false'),
  'httpd/authentication_handlers': handlers,
  'httpd/bind_address': address,
  'httpd/body_memory_timeout': positive,
  'httpd/body_timeout': positive,
  'httpd/changes_timeout': count,
  'httpd/log_max_chunk_size': count,
  'httpd/max_body_memory': bytesOrShare,
  'httpd/max_connections': positive,
  'httpd/max_http_request_size': positive,
  'httpd/max_db_updates': positive,
  'httpd/max_request_items': positive,
  'httpd/max_uri_length': positive,
  'httpd/min_body_rate': positive,
  'httpd/port': port,
  'httpd/rewrite_limit': count,
  'httpd/server_options': term,
  'httpd/socket_options': term,
  'log/format': oneOf('text', 'json'),
  'log/max_file_size': positive,
  'log/max_files': count,
  'log/writer': oneOf('file', 'stderr'),
  'mango/count_scan_limit': count,
  'mango/default_limit': count,
  'lmdb/native_cursors': oneOf('true', 'false'),
  'lmdb/native_reads': oneOf('true', 'false'),
  'lmdb/native_writes': oneOf('true', 'false'),
  'lmdb/open_timeout': between(1, 3_600_000),
  'lmdb/page_inspection': oneOf('true', 'false'),
  'lmdb/page_writer': oneOf('true', 'false'),
  'mango/index_scan_warning_threshold': count,
  'os_daemon_settings/max_retries': count,
  'os_daemon_settings/retry_time': positive,
  'query_server_config/isolate_memory_limit': positive,
  'query_server_config/commit_freq': count,
  'query_server_config/os_process_limit': positive,
  'query_server_config/partition_query_limit': positive,
  'query_server_config/process_memory_limit': positive,
  'replicator/checkpoint_interval': positive,
  'replicator/connection_timeout': positive,
  'replicator/db': databaseName,
  'replicator/health_threshold': count,
  'replicator/http_connections': positive,
  'replicator/interval': between(10, 86_400_000),
  'replicator/max_churn': count,
  'replicator/max_history': positive,
  'replicator/max_jobs': count,
  'replicator/max_replication_retry_count': countOrInfinity,
  'replicator/retries_per_request': count,
  'replicator/retry_delay_limit_ms': between(1, 86_400_000),
  'replicator/retry_delay_ms': between(1, 86_400_000),
  'service/engine_read_connections': positive,
  'service/engine_write_connections': positive,
  'service/engine_cache': count,
  'service/engine_lease': between(500, 600_000),
  'replicator/startup_jitter': between(0, 3_600_000),
  'replicator/worker_batch_size': positive,
  'replicator/worker_processes': positive,
  'retention/check_interval': positive,
  'service/maintenance_mode': oneOf('true', 'false', 'nolb'),
  'service/max_attachment_size': sizeLimit,
  'service/max_dbs_open': positive,
  'service/nodes': nodes,
  'service/max_document_size': positive,
  'service/os_process_timeout': positive,
  'httpd/dialect': oneOf('1.6', '3'),
  'service_httpd_auth/admin_password_scheme': oneOf('simple', 'pbkdf2'),
  'service_httpd_auth/auth_cache_size': count,
  'service_httpd_auth/authentication_db': databaseName,
  'service_httpd_auth/iterations': positive,
  'service_httpd_auth/login_delay_limit_ms': count,
  'service_httpd_auth/login_delay_ms': count,
  'service_httpd_auth/login_free_tries': count,
  'service_httpd_auth/max_iterations': positive,
  'service_httpd_auth/max_user_request_size': positive,
  'service_httpd_auth/max_waiting_logins': positive,
  'service_httpd_auth/min_iterations': count,
  'service_httpd_auth/password_scheme': oneOf('simple', 'pbkdf2'),
  'service_httpd_auth/pbkdf2_prf': oneOf('sha', 'sha224', 'sha256', 'sha384', 'sha512'),
  'service_httpd_auth/timeout': positive,
  'ssl/port': port,
  'ssl/ssl_certificate_max_depth': count,
  // A tick takes its time for every statistic: not a thousand times a second.
  'stats/rate': between(10, 3_600_000),
  'stats/samples': samples,
  'uuids/algorithm': oneOf('random', 'sequential', 'utc_random', 'utc_id'),
  'uuids/max_count': between(0, 1_000_000),
  'view_building/idle_timeout': between(1000, 86_400_000),
  'view_building/sort_memory': positive,
  'view_building/stop_timeout': between(1, 3_600_000),
}
