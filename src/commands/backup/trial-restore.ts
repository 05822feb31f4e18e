/**
 * Tests a backup: restores all of it into a temporary server on an empty folder, compares the counts of documents, and checks
 * the folder. The server listens on loopback only, with a random password.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { checkCommand } from '../check/check-command.ts'
import { CommandError } from '../command-error.ts'
import { restoreCommand } from '../restore/restore-command.ts'
import type { Terminal } from '../terminal.ts'
import { BackupFolder } from './backup-folder.ts'

const ADMINISTRATOR = 'trial'

export interface TrialOptions {
  /** The parent of the temporary folder; it needs space for all databases. */
  readonly scratch: string | undefined
  readonly isQuiet: boolean
}

/** Resolves to the exit code. */
export async function trialRestore(
  path: string,
  { scratch, isQuiet }: TrialOptions,
  terminal: Terminal,
): Promise<number> {
  const folder = await BackupFolder.openForReading(path)
  const names =
    (await folder.about())?.databases ?? (await folder.chains()).flatMap(({ database }) => database?.name ?? [])
  const quiet = isQuiet ? ['--quiet'] : []
  const dir = await mkdtemp(join(scratch ?? tmpdir(), 'settle-trial-'))
  try {
    const password = randomBytes(24).toString('base64url')
    await using server = await startServer(dir, password)
    const url = ['--url', server.url, '--user', ADMINISTRATOR]
    const databases = [...new Set(names)].flatMap((name) => ['--db', `${name}=${trialName(name, names)}`])
    const environment = { SETTLE_PASSWORD: password }
    const restored = await restoreCommand(['--from', path, ...url, ...databases, ...quiet], {
      ...terminal,
      environment,
    })
    await server.stop()
    return restored === 0 ? await checkCommand(['--dir', dir, ...quiet], terminal) : restored
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** System databases get other names, so that no replication starts. */
function trialName(name: string, all: readonly string[]): string {
  if (!name.startsWith('_')) return name
  let prefix = 'trial'
  while (all.includes(`${prefix}${name}`)) prefix += '-trial'
  return `${prefix}${name}`
}

interface TrialServer extends AsyncDisposable {
  readonly url: string
  stop(): Promise<void>
}

async function startServer(dir: string, password: string): Promise<TrialServer> {
  const cli = join(import.meta.dirname, '..', '..', `cli${extname(import.meta.filename)}`)
  const child = spawn(
    process.execPath,
    [...process.execArgv, cli, '--dir', dir, '--port', '0', '--bind', '127.0.0.1'],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH, [`SETTLE_ADMINS__${ADMINISTRATOR.toUpperCase()}`]: password },
    },
  )
  let output = ''
  const ready = new Promise<string>((resolve, reject) => {
    const listen = (piece: Buffer) => {
      output += piece.toString()
      const [, url] = /is ready at (http:\S+)/.exec(output) ?? []
      if (url !== undefined) resolve(url)
    }
    child.stdout.on('data', listen)
    child.stderr.on('data', listen)
    child.once('error', reject)
    child.once('exit', () => reject(new CommandError(`The temporary server did not start. ${output.trim()}`)))
  })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  return { url: await ready, stop, [Symbol.asyncDispose]: stop }
}
