import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { findPostgres } from './test/support/postgres.ts'
import { RetriedTests } from './test/support/retried-tests.ts'

const long = process.env.SETTLE_LONG === '1'

/** Black-box tests run on disk, as servers do. These, which go through all of the memory engine, run in memory too. */
const inMemoryToo = [
  'rows/all-docs',
  'attachments/attachments',
  'attachments/attachment-stubs',
  'documents/bulk-docs',
  'documents/bulk-get',
  'changes/changes',
  'documents/documents',
  'documents/document-reads',
  'documents/local-documents',
  'attachments/multipart-documents',
  'revisions/revs-diff-purge',
  'views/view-documents',
  'views/view-ranges',
  'views/view-reduce',
].map((name) => `test/http/${name}.test.ts`)

/** These go through all of the PostgreSQL engine; `SETTLE_TEST_STORE=postgres npm run test:long` runs all of them on it. */
const onPostgresToo = [
  'documents/bulk-docs',
  'documents/documents',
  'documents/local-documents',
  'views/view-ranges',
].map((name) => `test/http/${name}.test.ts`)
/** About files: how they grow while readers stall. */
const onFilesOnly = 'test/http/rows/stalled-readers.test.ts'
const onPostgres = { SETTLE_TEST_STORE: 'postgres' }
const onThreeServers = { SETTLE_TEST_STORE: 'postgres', SETTLE_TEST_NODES: '3' }
const isAllOnPostgres = process.env.SETTLE_TEST_STORE === 'postgres'
const postgres = findPostgres()
if ('missing' in postgres) process.stderr.write(`Tests on PostgreSQL are skipped. ${postgres.missing}\n`)

/** Clients that work with both dialects, and whose tests do not choose one. */
const inBothDialects = [
  'design-functions',
  'logins',
  'nano',
  'pouchdb',
  'pouchdb-changes',
  'selector-queries',
  'views',
].map((name) => `test/clients/${name}.test.ts`)

/** Black-box tests that always run with every request at a secondary too; with the long tests nearly all of them do. */
const behindSecondary = [
  'documents/documents',
  'attachments/attachments',
  'changes/changes',
  'auth/security-object',
  'auth/sessions',
  'views/view-documents',
].map((name) => `test/http/${name}.test.ts`)
/** Black-box tests that always run on four nodes and on three servers over PostgreSQL too; with the long tests nearly all do. */
const onSeveralNodes = ['documents/documents', 'auth/security-object'].map((name) => `test/http/${name}.test.ts`)
/** These start no server, or one in a process of their own, which is one node. */
const onOneNodeOnly = [
  'changes/feed',
  'changes/feed.output',
  'changes/changes-model',
  'design-functions/function-response',
  'design-functions/list-resource',
  'design-functions/rewrite-resource',
  'load/large-listing',
  'load/large-upload',
  'standstill/linear-headers',
  'load/many-databases',
  'load/many-listeners',
  'bodies/scanned-memory',
  'server/routes',
  'bodies/small-pieces',
  'standstill/standstill',
  'standstill/standstill-connections',
].map((name) => `test/http/${name}.test.ts`)

const blackBox = 'test/http/**/*.test.ts'
const inBrowser = 'test/browser/**/*.test.ts'

/** Replaces a module, and so needs a process of its own. */
const withMocks = 'test/http/auth/login-work.test.ts'

/** Tests of parts that leave nothing behind in their process, but for those that replace timers or clocks, or measure theirs. */
const sharing = {
  include: [
    ...['auth', 'backup', 'clients', 'cluster', 'commands', 'config', 'couchapp', 'database', 'document', 'encoding'],
    ...['formats', 'forwarding', 'functions', 'listeners', 'multipart', 'packaging', 'postgres', 'replication'],
    ...['runtime', 'scan', 'scripts', 'selectors', 'storage', 'ui', 'views', 'wire'],
  ].map((folder) => `test/${folder}/**/*.test.ts`),
  exclude: [
    'database/compaction/compaction-daemon',
    'database/writing/batched-writes',
    'functions/calls-behind',
    'replication/scheduler/many-jobs',
    'replication/scheduler/scheduler',
    'runtime/deadlines',
    'storage/lmdb/library-check',
    'views/reading/recent-state',
  ].map((name) => `test/${name}.test.ts`),
}

/** All that clients can see of a server, for servers of several nodes. */
const seenByClients = {
  include: [blackBox, 'test/clients/**/*.test.ts'],
  exclude: [withMocks, ...onOneNodeOnly],
}

/** Log, statistics, tasks and processes of functions, which each of several servers on PostgreSQL has for itself. */
const ofOneServer = [
  'admin/active-tasks',
  'admin/log',
  'admin/metrics',
  'admin/stats',
  'admin/structured-log',
  'design-functions/function-clients',
  'design-functions/list-slots',
].map((name) => `test/http/${name}.test.ts`)
/** The same for several servers on PostgreSQL. */
const seenOfServers = { ...seenByClients, exclude: [...seenByClients.exclude, onFilesOnly, ...ofOneServer] }

/** Tests of ports and connections that a load balancer before the nodes would hide. */
const ofConnections = [
  'test/http/admin/config.test.ts',
  'test/http/bodies/body-memory.test.ts',
  'test/http/connections/forwarded.test.ts',
  'test/http/connections/tls.test.ts',
  'test/clients/pouchdb-sync.test.ts',
]

/** The storage suite with nothing used of the LMDB library but what it promises, except for tests of the rest itself. */
const promised = {
  env: {
    SETTLE_LMDB__NATIVE_CURSORS: 'false',
    SETTLE_LMDB__NATIVE_WRITES: 'false',
    SETTLE_LMDB__NATIVE_READS: 'false',
    SETTLE_LMDB__PAGE_WRITER: 'false',
    SETTLE_LMDB__PAGE_INSPECTION: 'false',
  },
  exclude: [
    'file-check/file-check',
    'file-check/set-aside',
    'lmdb/library-check',
    'lmdb/write-instructions',
    'postgres/**',
  ].map((name) => `test/storage/${name}.test.ts`),
}

const common = {
  setupFiles: ['test/support/fixed-seed.ts'],
  pool: 'forks' as const,
  // For what a busy machine does now and then; the report names the tests that needed it.
  retry: long ? 0 : 1,
  // Only what hangs takes so long: a loaded machine is many times slower than a quiet one.
  testTimeout: long ? 3_600_000 : 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
}

/** Where files share processes: modules are loaded once for all of them. For tests that leave nothing behind in theirs. */
const shared = { ...common, isolate: false }

export default defineConfig({
  test: {
    // Many tests of the everyday run wait for timers most of their time; long ones keep a core busy.
    maxWorkers: long ? 2 : 3,
    // Where Node's `enableCompileCache` puts it: the processes that tests start need not compile the same modules again.
    env: { NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache') },
    // The projects below share what is transformed, and so do runs.
    experimental: { fsModuleCache: true },
    reporters: ['default', new RetriedTests()],
    projects:
      long && isAllOnPostgres
        ? [
            {
              test: {
                ...shared,
                name: 'all on postgres',
                include: [blackBox],
                exclude: [withMocks, onFilesOnly],
                env: onPostgres,
              },
            },
          ]
        : long
          ? [
              { test: { ...common, name: 'long', include: ['test/**/*.long.ts'] } },
              { test: { ...common, name: 'promised library', include: ['test/storage/**/*.test.ts'], ...promised } },
              { test: { ...shared, name: 'four nodes', ...seenByClients, env: { SETTLE_TEST_NODES: '4' } } },
              {
                test: {
                  ...common,
                  name: 'four processes',
                  include: ofConnections,
                  env: { SETTLE_TEST_NODES: 'settle' },
                },
              },
              {
                test: {
                  ...common,
                  name: 'behind a secondary',
                  ...seenByClients,
                  env: { SETTLE_TEST_NODES: 'secondary' },
                },
              },
              ...('missing' in postgres
                ? []
                : [{ test: { ...shared, name: 'three servers', ...seenOfServers, env: onThreeServers } }]),
            ]
          : [
              {
                test: {
                  ...common,
                  name: 'parts',
                  include: ['test/**/*.test.ts'],
                  exclude: [blackBox, inBrowser, ...sharing.include],
                },
              },
              { test: { ...shared, name: 'shared parts', ...sharing } },
              { test: { ...common, name: 'parts apart', include: sharing.exclude } },
              {
                test: {
                  ...common,
                  name: 'promised library',
                  include: ['test/storage/lmdb/lmdb-engine.test.ts'],
                  ...promised,
                },
              },
              { test: { ...shared, name: 'browser', include: [inBrowser] } },
              {
                test: { ...shared, name: 'dialect 3', include: inBothDialects, env: { SETTLE_TEST_DIALECT: '3' } },
              },
              {
                test: {
                  ...shared,
                  name: 'behind a secondary',
                  include: behindSecondary,
                  env: { SETTLE_TEST_NODES: 'secondary' },
                },
              },
              { test: { ...common, name: 'mocks', include: [withMocks] } },
              { test: { ...shared, name: 'disk', include: [blackBox], exclude: [withMocks] } },
              {
                test: {
                  ...shared,
                  name: 'memory',
                  include: inMemoryToo,
                  env: { SETTLE_TEST_STORE: 'memory' },
                },
              },
              ...('missing' in postgres
                ? []
                : [
                    { test: { ...shared, name: 'postgres', include: onPostgresToo, env: onPostgres } },
                    { test: { ...shared, name: 'three servers', include: onSeveralNodes, env: onThreeServers } },
                  ]),
              { test: { ...shared, name: 'four nodes', include: onSeveralNodes, env: { SETTLE_TEST_NODES: '4' } } },
            ],
  },
})
