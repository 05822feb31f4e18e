/** A server in a process of its own whose limits of the operating system change while it runs. Linux only. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { chmod, chown } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { serverCommand } from '../../src/supervisor/server-command.ts'
import { Client } from '../support/client.ts'
import { descendants } from '../support/descendants.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Nobody: an administrator of the system may write into every folder. */
const NOBODY = 65_534

export class LimitedServer {
  readonly folder: string
  readonly client: Client
  readonly #child: ChildProcess

  /** `unprivileged`: what its folder forbids is forbidden, whoever runs the tests. `plant`: see `planted-server.ts`. */
  static async start(
    who: 'the same user' | 'unprivileged' = 'the same user',
    plant: string | undefined = undefined,
  ): Promise<LimitedServer> {
    const folder = await temporaryFolder()
    const isRoot = who === 'unprivileged' && process.getuid?.() === 0
    if (isRoot) await chown(folder, NOBODY, NOBODY)
    const planting = plant === undefined ? [] : ['--import', join(import.meta.dirname, 'planted-server.ts')]
    const { args, environment } = serverCommand(['--port', '0', '--dir', folder], planting)
    const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {}
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...environment, SETTLE_TEST_PLANT: plant },
      ...user,
    })
    onTestFinished(async () => {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      await chmod(folder, 0o755)
    })
    let said = ''
    const url = await new Promise<string>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`The server ended with ${code}.`)))
      child.stdout?.setEncoding('utf8').on('data', (text: string) => {
        said += text
        const [found] = /http:\S+/.exec(said) ?? []
        if (found) resolve(found)
      })
    })
    return new LimitedServer(folder, child, new Client(url))
  }

  private constructor(folder: string, child: ChildProcess, client: Client) {
    this.folder = folder
    this.#child = child
    this.client = client
    onTestFinished(() => client.close())
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** No file may grow beyond so many bytes, as on a disk that is full. For its children too. */
  limitFileSize(bytes: number | 'unlimited'): void {
    const pid = this.#child.pid ?? 0
    prlimit(pid, `--fsize=${bytes}:`)
    for (const each of descendants(pid)) {
      try {
        prlimit(each, `--fsize=${bytes}:`)
      } catch {
        // It has ended meanwhile.
      }
    }
  }

  /** So many descriptors more than are open now. */
  limitDescriptors(more: number | 'as before'): void {
    const pid = this.#child.pid ?? 0
    const limit = more === 'as before' ? hardLimit(pid) : readdirSync(`/proc/${pid}/fd`).length + more
    prlimit(pid, `--nofile=${limit}:`)
  }

  /** Nothing can be made, renamed or removed in it. */
  async makeFolder(how: 'read-only' | 'writable'): Promise<void> {
    await chmod(this.folder, how === 'read-only' ? 0o555 : 0o755)
  }
}

function prlimit(pid: number, limit: string): void {
  execFileSync('prlimit', ['--pid', String(pid), limit], { stdio: 'pipe' })
}

function hardLimit(pid: number): string {
  return execFileSync('prlimit', ['--pid', String(pid), '--nofile', '--output', 'HARD', '--noheadings'], {
    encoding: 'utf8',
  }).trim()
}
