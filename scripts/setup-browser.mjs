/**
 * Makes sure that there is a Chromium for the tests in a browser. Runs before `npm test` under whatever Node the machine
 * has. Where the package manager cannot be used, it says what to do; the tests that need a browser then fail by saying
 * the same.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const chromium = '/usr/bin/chromium'

if (process.env.SETTLE_BROWSER === undefined && !existsSync(chromium)) {
  const isRoot = process.getuid?.() === 0
  const isInstalled = isRoot && apt('update') && apt('install', '-y', '--no-install-recommends', 'chromium')
  if (!isInstalled) {
    process.stderr.write(
      'There is no Chromium: install it, or name one in SETTLE_BROWSER, for the tests in a browser.\n',
    )
  }
}

function apt(...args) {
  process.stderr.write(`apt-get ${args.join(' ')}\n`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  return spawnSync('apt-get', ['-qq', ...args], { env, stdio: ['ignore', 'ignore', 2] }).status === 0
}
