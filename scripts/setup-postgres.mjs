/**
 * Makes sure that there is a PostgreSQL for the tests of that engine. Runs before `npm test` under whatever Node the machine
 * has. Where the package manager cannot be used, the tests that need it say that they are skipped, and why.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'

const versions = '/usr/lib/postgresql'

if (!existsSync(versions) || readdirSync(versions).length === 0) {
  const isRoot = process.getuid?.() === 0
  const isInstalled = isRoot && apt('update') && apt('install', '-y', '--no-install-recommends', 'postgresql')
  if (!isInstalled) process.stderr.write('There is no PostgreSQL: the tests that need one are skipped.\n')
}

function apt(...args) {
  process.stderr.write(`apt-get ${args.join(' ')}\n`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  return spawnSync('apt-get', ['-qq', ...args], { env, stdio: ['ignore', 'ignore', 2] }).status === 0
}
