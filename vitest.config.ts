import { defineConfig } from 'vitest/config'

const long = process.env.SETTLE_LONG === '1'

/** Black-box tests run on disk, as servers do. These, which go through all of the memory engine, run in memory too. */
const inMemoryToo = [
  'all-docs',
  'attachments',
  'attachment-stubs',
  'bulk-docs',
  'bulk-get',
  'changes',
  'documents',
  'document-reads',
  'local-documents',
  'multipart-documents',
  'revs-diff-purge',
  'view-documents',
  'view-ranges',
  'view-reduce',
].map((name) => `test/http/${name}.test.ts`)

const common = {
  setupFiles: ['test/support/fixed-seed.ts'],
  pool: 'forks' as const,
  testTimeout: long ? 3_600_000 : 60_000,
  hookTimeout: 60_000,
}

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: long
      ? [{ test: { ...common, name: 'long', include: ['test/**/*.long.ts'] } }]
      : [
          { test: { ...common, name: 'disk', include: ['test/**/*.test.ts'] } },
          { test: { ...common, name: 'memory', include: inMemoryToo, env: { SETTLE_TEST_STORE: 'memory' } } },
        ],
  },
})
