import { defineConfig } from 'vitest/config'

const long = process.env.SETTLE_LONG === '1'

export default defineConfig({
  test: {
    include: long ? ['test/**/*.long.ts'] : ['test/**/*.test.ts'],
    setupFiles: ['test/support/fixed-seed.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: long ? 3_600_000 : 60_000,
    hookTimeout: 60_000,
  },
})
