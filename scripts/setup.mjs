/**
 * Installs what the project needs, once. Runs before `npm start` and `npm test` under whatever Node the machine has;
 * the scripts themselves then run under the Node that the repository brings. Nothing is done when the lock file is
 * the one that was installed last.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const marker = join(root, 'node_modules', '.settle-installed')
const wanted = createHash('sha256')
  .update(readFileSync(join(root, 'package-lock.json')))
  .digest('hex')

if (!existsSync(marker) || readFileSync(marker, 'utf8') !== wanted) {
  process.stderr.write('Installing the dependencies of Settle (once)…\n')
  // Not `npm ci`: it refuses a lock file that lacks optional packages of platforms other than ours.
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  const npm = process.env.npm_execpath
  const options = { cwd: root, stdio: ['ignore', 2, 2] }
  const result = npm
    ? spawnSync(process.execPath, [npm, ...args], options)
    : spawnSync('npm', args, { ...options, shell: true })
  if (result.status !== 0) {
    process.stderr.write('The installation failed; see above.\n')
    process.exit(result.status ?? 1)
  }
  writeFileSync(marker, wanted)
}
