/** The `settle` command in a process of its own, with the server that it supervises. */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'

const CLI = join(import.meta.dirname, '../../src/cli.ts')

export interface Outcome {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface CommandOptions {
  readonly environment?: Record<string, string>
  /** Of the shell that starts the command, such as `ulimit -n 256`. */
  readonly prelude?: string
}

export class SettleCommand {
  readonly process: ChildProcess
  readonly ended: Promise<Outcome>
  readonly url: Promise<string>
  #out = ''
  #err = ''

  constructor(args: readonly string[], { environment = {}, prelude = 'true' }: CommandOptions = {}) {
    const command = ['-c', `${prelude} && exec "$0" "$@"`, process.execPath, CLI, ...args]
    const child = spawn('sh', command, {
      stdio: ['ignore', 'pipe', 'pipe'],
      // One node, unless its flags say otherwise: the same tests on every machine.
      env: { ...process.env, SETTLE_SERVICE__NODES: '1', ...environment },
    })
    this.process = child
    this.url = new Promise((resolve) => {
      child.stdout.on('data', (data) => {
        this.#out += data
        const [found] = /http:\S+/.exec(this.#out) ?? []
        if (found) resolve(found)
      })
    })
    child.stderr.on('data', (data) => {
      this.#err += data
    })
    this.ended = new Promise((resolve) => {
      child.on('close', (code) => resolve({ code, out: this.#out, err: this.#err }))
    })
    onTestFinished(async () => {
      const servers = this.serverPids()
      for (const pid of [child.pid, ...servers]) if (pid !== undefined) endProcess(pid)
      await this.ended
    })
  }

  get err(): string {
    return this.#err
  }

  /** The process of the server; the supervisor has no other child. */
  async serverPid(other?: number): Promise<number> {
    await expect.poll(() => this.serverPids().filter((pid) => pid !== other)).toHaveLength(1)
    return this.serverPids()[0] ?? 0
  }

  serverPids(): number[] {
    const { pid } = this.process
    try {
      const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      return children.split(' ').filter(Boolean).map(Number)
    } catch {
      return []
    }
  }
}

/** Whether a process is there, and more than the memory of one that ended. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended before.
  }
}
