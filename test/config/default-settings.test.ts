/** The settings that ship with the server: those that the family knows are all there, with the values it expects. */
import { describe, expect, it } from 'vitest'
import { Configuration } from '../../src/config/configuration.ts'
import { defaultSettings, SettingMemory } from '../../src/config/setting-sources.ts'

const EXPECTED: Record<string, Record<string, string>> = {
  service: {
    delayed_commits: 'false',
    file_compression: 'snappy',
    attachment_stream_buffer_size: '4096',
    max_attachment_chunk_size: '4294967296',
    max_dbs_open: '500',
    max_document_size: '67108864',
    os_process_timeout: '5000',
  },
  database_compaction: { doc_buffer_size: '524288', checkpoint_after: '5242880' },
  view_compaction: { keyvalue_buffer_size: '2097152' },
  httpd: {
    port: '5984',
    bind_address: '127.0.0.1',
    secure_rewrites: 'true',
    rewrite_limit: '100',
    vhost_global_handlers: '_utils, _uuids, _session, _oauth, _users',
    allow_jsonp: 'false',
    enable_cors: 'false',
    log_max_chunk_size: '1000000',
    changes_timeout: '60000',
  },
  ssl: { port: '6984', verify_ssl_certificates: 'false', ssl_certificate_max_depth: '1' },
  log: { level: 'info', include_sasl: 'true' },
  service_httpd_auth: {
    authentication_db: '_users',
    authentication_redirect: '/_utils/session.html',
    require_valid_user: 'false',
    timeout: '600',
    auth_cache_size: '50',
    allow_persistent_cookies: 'true',
    iterations: '600000',
    min_iterations: '1',
    max_iterations: '1000000000',
    password_scheme: 'pbkdf2',
    pbkdf2_prf: 'sha256',
    admin_password_scheme: 'simple',
    users_db_public: 'false',
    proxy_use_secret: 'false',
  },
  cors: { credentials: 'false' },
  service_httpd_oauth: { use_users_db: 'false' },
  query_server_config: { reduce_limit: 'true', os_process_limit: '25', commit_freq: '5' },
  uuids: { algorithm: 'sequential', max_count: '1000' },
  stats: { rate: '1000', samples: '[0, 60, 300, 900]' },
  attachments: {
    compression_level: '8',
    compressible_types: 'text/*, application/javascript, application/json, application/xml',
  },
  replicator: {
    db: '_replicator',
    max_replication_retry_count: '10',
    worker_processes: '4',
    worker_batch_size: '500',
    http_connections: '20',
    connection_timeout: '30000',
    retries_per_request: '10',
    socket_options: '[{keepalive, true}, {nodelay, false}]',
    checkpoint_interval: '5000',
    use_checkpoints: 'true',
    verify_ssl_certificates: 'false',
    ssl_certificate_max_depth: '3',
  },
  compaction_daemon: { check_interval: '300', min_file_size: '131072' },
  os_daemon_settings: { max_retries: '3', retry_time: '5' },
}

/** Keys whose values are the server's own. */
const PRESENT: Record<string, string[]> = {
  vendor: ['name'],
  service: ['database_dir', 'view_index_dir', 'uri_file', 'util_driver_dir', 'plugin_dir'],
  httpd: ['authentication_handlers', 'default_handler', 'socket_options', 'max_connections'],
  log: ['file'],
  query_servers: ['javascript'],
  replicator: ['max_http_pipeline_size', 'max_http_sessions'],
  daemons: [
    'index_server',
    'external_manager',
    'query_servers',
    'vhosts',
    'httpd',
    'stats_aggregator',
    'stats_collector',
    'uuids',
    'auth_cache',
    'replicator_manager',
    'os_daemons',
    'compaction_daemon',
  ],
  httpd_global_handlers: [
    '/',
    'favicon.ico',
    '_utils',
    '_all_dbs',
    '_active_tasks',
    '_config',
    '_replicate',
    '_uuids',
    '_restart',
    '_stats',
    '_log',
    '_session',
    '_oauth',
    '_db_updates',
    '_plugins',
  ],
  httpd_db_handlers: ['_all_docs', '_changes', '_compact', '_design', '_temp_view', '_view_cleanup'],
  httpd_design_handlers: ['_compact', '_info', '_list', '_rewrite', '_show', '_update', '_view'],
}

const shipped = Configuration.load({ defaults: await defaultSettings(), stored: new SettingMemory() })

describe('the shipped settings', () => {
  it.each(Object.entries(EXPECTED))('have the default values of %s', async (section, settings) => {
    expect(Object.fromEntries((await shipped).section(section))).toMatchObject(settings)
  })

  it.each(Object.entries(PRESENT))('have the keys of %s', async (section, keys) => {
    expect([...(await shipped).section(section).keys()]).toEqual(expect.arrayContaining(keys))
  })

  it('leave out what is empty', async () => {
    expect((await shipped).get('uuids', 'utc_id_suffix')).toBeUndefined()
  })
})
