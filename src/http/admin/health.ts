/**
 * Whether the server can do its work, for load balancers and supervisors. It cannot in maintenance mode, nor while
 * its storage engine is away, nor while writes fail: a full disk, a read-only folder. Writing is tried with a small file,
 * at most once a second, however often the endpoint is asked.
 */
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Configuration } from '../../config/configuration.ts'
import type { WriteMetrics } from '../../database/writing/write-queue.ts'

export type HealthStatus =
  | { readonly status: 'ok' | 'maintenance_mode' | 'nolb' }
  | { readonly status: 'not_writable' | 'engine_unavailable'; readonly reason: string }

export interface HealthOptions {
  readonly configuration: Pick<Configuration, 'get'>
  readonly writes: Pick<WriteMetrics, 'lastFailure'>
  /** Of the databases; undefined in memory. */
  readonly folder: string | undefined
  /** Where another program keeps the databases: rejects while it cannot be reached, after a short time. */
  readonly engine?: { check?(): Promise<void> }
}

const PROBE_INTERVAL_MS = 1000
/** More than a file system keeps beside its blocks. */
const PROBE = Buffer.alloc(64 * 1024)
/** Created in the data folder and removed at once. */
export const PROBE_FILE = '.health'

/** How long a failed commit counts, unless a later one succeeds: a limit on file sizes fails only large ones. */
const FAILURE_COUNTS_MS = 10_000

export class Health {
  readonly #options: HealthOptions
  #probed: { readonly atMs: number; readonly problem: Promise<string | undefined> } | undefined

  constructor(options: HealthOptions) {
    this.#options = options
  }

  async status(): Promise<HealthStatus> {
    const { configuration, writes, engine } = this.#options
    const mode = configuration.get('service', 'maintenance_mode')
    if (mode === 'true') return { status: 'maintenance_mode' }
    if (mode === 'nolb') return { status: 'nolb' }
    try {
      await engine?.check?.()
    } catch (error) {
      return { status: 'engine_unavailable', reason: error instanceof Error ? error.message : String(error) }
    }
    const { lastFailure } = writes
    const isRecent = lastFailure && performance.now() - lastFailure.atMs < FAILURE_COUNTS_MS
    const problem = (await this.#probe()) ?? (isRecent ? lastFailure.reason : undefined)
    return problem === undefined ? { status: 'ok' } : { status: 'not_writable', reason: problem }
  }

  #probe(): Promise<string | undefined> {
    const { folder } = this.#options
    if (folder === undefined) return Promise.resolve(undefined)
    const nowMs = performance.now()
    if (!this.#probed || nowMs - this.#probed.atMs >= PROBE_INTERVAL_MS) {
      this.#probed = { atMs: nowMs, problem: problemOfWriting(join(folder, PROBE_FILE)) }
    }
    return this.#probed.problem
  }
}

/** Undefined if it works. Not flushed: that would delay commits, and the write alone allocates the space. */
async function problemOfWriting(path: string): Promise<string | undefined> {
  try {
    const file = await open(path, 'w', 0o600)
    try {
      await file.write(PROBE)
    } finally {
      await file.close()
    }
    await rm(path, { force: true })
    return undefined
  } catch (error) {
    await rm(path, { force: true }).catch(() => {})
    return `The data folder cannot be written: ${error instanceof Error ? error.message : error}`
  }
}
