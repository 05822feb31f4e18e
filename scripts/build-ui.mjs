/**
 * Builds the administration interface into `dist/ui`, once for each state of its sources. Runs before `npm start` under
 * whatever Node the machine has, so the work itself is given to the Node that the repository brings. A build that fails
 * does not keep the server from starting: it then says at `/_utils/` that there is no interface.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, extname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { replaceFolder } from './replace-folder.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'dist', 'ui')
const stamp = join(target, '.stamp')
const inputs = ['ui', 'etc/default.ini', 'package.json', 'package-lock.json', 'scripts/build-ui.mjs']

const wanted = digestOf(inputs.flatMap((input) => filesBelow(join(root, input))))
if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted) build()

function build() {
  process.stderr.write('Building the administration interface (once)…\n')
  const node = join(root, 'node_modules', '.bin', process.platform === 'win32' ? 'node.cmd' : 'node')
  const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js')
  // Whole before it has its name: a server or a second build never sees half of it.
  const unfinished = join(root, 'dist', `.ui-${process.pid}`)
  const args = [vite, 'build', 'ui', '--logLevel', 'error', '--outDir', unfinished, '--emptyOutDir']
  const result = spawnSync(existsSync(node) ? node : process.execPath, args, {
    cwd: root,
    // Whoever builds, tests included, builds what people get.
    env: { ...process.env, NODE_ENV: 'production' },
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  })
  if (result.status !== 0) {
    rmSync(unfinished, { recursive: true, force: true })
    rmSync(target, { recursive: true, force: true })
    process.stderr.write('The interface could not be built; see above.\n')
    // Who only wants the server gets it; who builds a package must know.
    process.exit(process.env.npm_lifecycle_event === 'prestart' ? 0 : 1)
  }
  for (const file of filesBelow(unfinished)) pack(file)
  writeFileSync(join(unfinished, '.stamp'), wanted)
  replaceFolder(target, unfinished)
}

/** Packed once here instead of at every start of a server. */
function pack(file) {
  if (!['.html', '.js', '.css', '.svg', '.txt'].includes(extname(file))) return
  const content = readFileSync(file)
  const brotli = brotliCompressSync(content, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
  })
  writeFileSync(`${file}.br`, brotli)
  writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }))
}

function filesBelow(path) {
  if (!existsSync(path)) return []
  const entries = readdirSafely(path)
  if (entries === undefined) return [path]
  return entries
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => (entry.isDirectory() ? filesBelow(join(path, entry.name)) : [join(path, entry.name)]))
}

/** Undefined for a file. */
function readdirSafely(path) {
  try {
    return readdirSync(path, { withFileTypes: true })
  } catch {
    return undefined
  }
}

function digestOf(files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(relative(root, file)).update('\0').update(readFileSync(file)).update('\0')
  return hash.digest('hex')
}
