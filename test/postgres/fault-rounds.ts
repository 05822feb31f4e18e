/**
 * Writers with a ledger of what was acknowledged, while the engine or a server beside it fails. Every problem is a sentence;
 * none means that all that was acknowledged is there, once.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

export class LedgerWriter {
  readonly #client: Client
  readonly #database: string
  readonly #name: string
  readonly acknowledged = new Map<string, string>()
  /** Statuses of refusals, and how often they came. */
  readonly refusals = new Map<number, number>()
  /** Replies with 503 that do not say when to come back. */
  withoutRetryAfter = 0
  #isStopped = false
  #written = 0

  constructor(url: string, database: string, name: string) {
    this.#client = new Client(url)
    this.#database = database
    this.#name = name
  }

  /** Writes until it is stopped. */
  async run(): Promise<void> {
    while (!this.#isStopped) {
      const id = `${this.#name}-${this.#written++}`
      const reply = await this.#client
        .request('PUT', `/${this.#database}/${id}`, { body: { written: this.#written } })
        .catch(() => undefined)
      if (reply?.status === 201) this.acknowledged.set(id, reply.rev)
      else await this.#refused(reply?.status ?? 0, reply?.headers['retry-after'])
    }
    this.#client.close()
  }

  stop(): void {
    this.#isStopped = true
  }

  async #refused(status: number, retryAfter: string | undefined): Promise<void> {
    this.refusals.set(status, (this.refusals.get(status) ?? 0) + 1)
    if (status === 503 && retryAfter === undefined) this.withoutRetryAfter++
    await pause(20)
  }
}

interface Listing {
  readonly total_rows: number
  readonly rows: readonly { readonly id: string; readonly value: { readonly rev: string } }[]
}

/** What is not as it was promised. */
export async function ledgerProblems(
  url: string,
  database: string,
  writers: readonly LedgerWriter[],
): Promise<string[]> {
  const client = new Client(url)
  try {
    const listing = (await client.request('GET', `/${database}/_all_docs`)).as<Listing>()
    const changes = (await client.request('GET', `/${database}/_changes`)).as<{
      results: { id: string; seq: number }[]
    }>()
    const revs = new Map(listing.rows.map(({ id, value }) => [id, value.rev]))
    const problems: string[] = []
    for (const { acknowledged } of writers) {
      for (const [id, rev] of acknowledged) {
        if (revs.get(id) !== rev) problems.push(`${id} was acknowledged as ${rev} and is ${revs.get(id)}.`)
      }
    }
    if (listing.total_rows !== listing.rows.length) problems.push('The count of documents is another one than of rows.')
    if (changes.results.length !== listing.rows.length) problems.push('There are not as many changes as documents.')
    const sequences = new Set(changes.results.map(({ seq }) => seq))
    if (sequences.size !== changes.results.length) problems.push('A sequence comes twice.')
    return problems
  } finally {
    client.close()
  }
}

export function total(writers: readonly LedgerWriter[]): number {
  return writers.reduce((sum, { acknowledged }) => sum + acknowledged.size, 0)
}

/** Waits until so many more were acknowledged. */
export async function grows(writers: readonly LedgerWriter[], by: number): Promise<void> {
  const before = total(writers)
  await until(() => total(writers) >= before + by)
}

/** Replies that no writer may ever get, and refusals without Retry-After. */
export function wrongRefusals(writers: readonly LedgerWriter[]): string[] {
  const problems: string[] = []
  for (const { refusals, withoutRetryAfter } of writers) {
    // No status at all: the server was killed, or its connection.
    for (const status of refusals.keys())
      if (![0, 409, 503].includes(status)) problems.push(`A refusal with ${status}.`)
    if (withoutRetryAfter > 0) problems.push('A 503 without Retry-After.')
  }
  return problems
}

const SERVER = join(import.meta.dirname, '../../src/server-process.ts')

/** A server in a process of its own, killed when the test ends. */
export async function startProcess(
  engine: string,
  variables: Record<string, string> = {},
): Promise<{ url: string; child: ChildProcess }> {
  const child = spawn(process.execPath, [SERVER, '--port', '0', '--dir', await temporaryFolder()], {
    env: { ...process.env, SETTLE_ENGINE: engine, ...variables },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  let output = ''
  child.stdout.on('data', (data: Buffer) => (output += data.toString()))
  await until(() => output.includes('ready at') || child.exitCode !== null)
  const [, url = ''] = /ready at (\S+)/.exec(output) ?? []
  return { url, child }
}
