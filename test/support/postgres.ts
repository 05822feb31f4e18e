/**
 * A real PostgreSQL for tests: a cluster in a temporary folder, reached by a Unix socket, with flushes as in production. The
 * programs are those of the system. Started once for each process that asks, and gone with it.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parentFolder } from './parent-folder.ts'
import { until } from './until.ts'

const VERSIONS = '/usr/lib/postgresql'

/** The folder of the programs, or why there is none. */
export function findPostgres(): { readonly bin: string } | { readonly missing: string } {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a)) : []
  for (const version of versions) {
    const bin = join(VERSIONS, version, 'bin')
    if (existsSync(join(bin, 'initdb'))) return isUsable() ? { bin } : { missing: NO_USER }
  }
  return { missing: `There is no PostgreSQL in ${VERSIONS}: install Debian's postgresql for these tests.` }
}

const NO_USER = 'PostgreSQL refuses to run as root, and there is no user postgres.'

function isUsable(): boolean {
  return process.getuid?.() !== 0 || postgresUser() !== undefined
}

/** PostgreSQL refuses to run as root. */
function postgresUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const uid = spawnSync('id', ['-u', 'postgres'], { encoding: 'utf8' })
  const gid = spawnSync('id', ['-g', 'postgres'], { encoding: 'utf8' })
  return uid.status === 0 && gid.status === 0 ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined
}

export class TestPostgres {
  readonly #bin: string
  readonly folder: string
  #process: ChildProcess | undefined
  #schemas = 0

  /** In a folder of its own, within the one that is given. */
  static async start(parent?: string): Promise<TestPostgres> {
    const found = findPostgres()
    if ('missing' in found) throw new Error(found.missing)
    const folder = mkdtempSync(join(parent ?? (await parentFolder()), 'settle-pg-'))
    const user = postgresUser()
    if (user) chownSync(folder, user.uid, user.gid)
    const options = ['-D', join(folder, 'data'), '-U', 'settle', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C']
    execFileSync(join(found.bin, 'initdb'), options, { ...user, cwd: folder, stdio: 'ignore' })
    const postgres = new TestPostgres(found.bin, folder)
    await postgres.resume()
    return postgres
  }

  /** A streaming standby of a running one. Commits of that one wait for it from then on. */
  static async standbyOf(primary: TestPostgres): Promise<TestPostgres> {
    const folder = mkdtempSync(join(await parentFolder(), 'settle-pg-'))
    const user = postgresUser()
    if (user) chownSync(folder, user.uid, user.gid)
    const source = ['-h', primary.folder, '-U', 'settle', '-D', join(folder, 'data')]
    const options = [...source, '-R', '-X', 'stream', '-c', 'fast', '--no-sync']
    execFileSync(join(primary.#bin, 'pg_basebackup'), options, { ...user, cwd: folder, stdio: 'ignore' })
    const standby = new TestPostgres(primary.#bin, folder)
    await standby.resume()
    primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.query('SELECT pg_reload_conf()')
    await until(() => primary.query('SELECT count(*) FROM pg_stat_replication WHERE sync_state = $$sync$$') === '1')
    return standby
  }

  /** Makes a standby the server that writes. */
  promote(): void {
    this.query('SELECT pg_promote(true)')
  }

  private constructor(bin: string, folder: string) {
    this.#bin = bin
    this.folder = folder
  }

  /** Of the process that started all others. */
  get pid(): number {
    return Number(readFileSync(join(this.folder, 'data', 'postmaster.pid'), 'utf8').split('\n')[0])
  }

  get socket(): string {
    return join(this.folder, '.s.PGSQL.5432')
  }

  /** An address with a schema of its own. */
  address(schema = `s${process.pid}_${++this.#schemas}`, host = this.folder): string {
    return `postgres://settle@localhost/postgres?host=${encodeURIComponent(host)}&schema=${schema}`
  }

  /** Starts the server again after `halt`. */
  async resume(): Promise<void> {
    const settings = {
      listen_addresses: '',
      unix_socket_directories: this.folder,
      fsync: 'on',
      max_connections: '200',
      shared_buffers: '64MB',
      log_min_messages: 'fatal',
      logging_collector: 'off',
      max_wal_size: '256MB',
    }
    const args = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])
    const command = [join(this.#bin, 'postgres'), '-D', join(this.folder, 'data'), ...args]
    const child = spawn('sh', ['-c', GUARD, 'sh', ...command], {
      ...postgresUser(),
      cwd: this.folder,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#process = child
    await until(() => this.#isReady() || child.exitCode !== null, 30_000)
    if (child.exitCode !== null) throw new Error('PostgreSQL did not start.')
  }

  /** `SIGINT` ends the sessions and shuts down; `SIGQUIT` is a crash of the server. */
  async halt(signal: 'SIGINT' | 'SIGQUIT' = 'SIGINT'): Promise<void> {
    const child = this.#process
    if (!child || child.exitCode !== null) return
    const exited = new Promise((resolve) => child.once('exit', resolve))
    process.kill(this.pid, signal)
    await exited
    this.#process = undefined
  }

  /** A user of databases of its own who must give this password; all others need none. */
  requirePassword(user: string, password: string): void {
    const rules = join(this.folder, 'data', 'pg_hba.conf')
    this.query(`CREATE ROLE ${user} LOGIN PASSWORD '${password}'`)
    this.query(`GRANT CREATE ON DATABASE postgres TO ${user}`)
    writeFileSync(rules, `local all ${user} scram-sha-256\n${readFileSync(rules, 'utf8')}`)
    this.query('SELECT pg_reload_conf()')
  }

  query(sql: string): string {
    const args = ['-h', this.folder, '-U', 'settle', '-d', 'postgres', '-tAc', sql]
    return execFileSync(join(this.#bin, 'psql'), args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  }

  /** At once, since nothing of it is needed any more. */
  remove(): void {
    if (this.#process?.exitCode === null) this.#process.stdin?.end()
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  }

  #isReady(): boolean {
    return spawnSync(join(this.#bin, 'pg_isready'), ['-q', '-h', this.folder]).status === 0
  }
}

/** Ends the server with its parent, however that ends: then the input is closed, and nothing is left behind. */
const GUARD = `exec 3<&0; "$@" </dev/null 3<&- & server=$!
(cat >/dev/null; touch gone; kill -QUIT $server) <&3 & watch=$!
wait $server; kill $watch; if [ -e gone ]; then rm -rf "$PWD"; fi`

let shared: Promise<TestPostgres> | undefined

/** One for all tests of this process. */
export function sharedPostgres(): Promise<TestPostgres> {
  shared ??= TestPostgres.start().then((postgres) => {
    process.once('exit', () => postgres.remove())
    return postgres
  })
  return shared
}
