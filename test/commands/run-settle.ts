/** Runs commands of `settle` to their end: in this process, which is quick, or in one of their own. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { PassThrough, Readable, Writable } from 'node:stream'
import { onTestFinished } from 'vitest'
import { commandNamed } from '../../src/commands/command-table.ts'

const CLI = join(import.meta.dirname, '../../src/cli.ts')

export interface RunOptions {
  readonly environment?: Record<string, string>
  readonly input?: Buffer
  /** As wide as this, where stderr is a terminal. */
  readonly columns?: number
}

export interface RunOutcome {
  readonly code: number | null
  readonly out: Buffer
  readonly err: string
}

export async function runSettle(args: readonly string[], options: RunOptions = {}): Promise<RunOutcome> {
  const [name = '', ...rest] = args
  const out = new Collected()
  const err = new Collected(options.columns)
  const command = commandNamed(name)
  if (!command) throw new Error(`There is no command ${name}.`)
  const code = await command(rest, {
    stdin: options.input ? Readable.from(piecesOf(options.input), { objectMode: false }) : new PassThrough().end(),
    stdout: out,
    stderr: err,
    environment: options.environment ?? {},
  })
  return { code, out: out.bytes, err: err.bytes.toString() }
}

function* piecesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += 50_000) yield bytes.subarray(at, at + 50_000)
}

class Collected extends Writable {
  readonly #pieces: Buffer[] = []
  readonly isTTY: boolean
  readonly columns: number

  constructor(columns = 0) {
    super()
    this.isTTY = columns > 0
    this.columns = columns
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#pieces)
  }

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    this.#pieces.push(Buffer.from(piece))
    done()
  }
}

export interface RunningCommand {
  readonly pid: number
  readonly ended: Promise<RunOutcome>
  kill(): void
}

/** In a process of its own, which can be killed. */
export function startSettle(args: readonly string[], environment: Record<string, string> = {}): RunningCommand {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const out: Buffer[] = []
  let err = ''
  child.stdout.on('data', (piece: Buffer) => out.push(piece))
  child.stderr.on('data', (piece: Buffer) => {
    err += piece
  })
  const ended = new Promise<RunOutcome>((resolve) => {
    child.on('close', (code) => resolve({ code, out: Buffer.concat(out), err }))
  })
  const kill = () => {
    child.kill('SIGKILL')
  }
  onTestFinished(async () => {
    kill()
    await ended
  })
  return { pid: child.pid ?? 0, ended, kill }
}
