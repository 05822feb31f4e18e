/**
 * What the servers of an engine report of themselves to each other. A report is made when another server asks for it, so it
 * costs nothing while nobody does.
 */
import type { ServerReports } from '../server-reports.ts'
import type { Parameter, ResultRow } from './connection.ts'
import { STATEMENTS, type Statement } from './statements.ts'

export interface ReportServices {
  /** This server. */
  readonly id: Buffer
  run(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]>
  /** Resolves when all other servers have written their reports, or after a timeout. */
  asked(): Promise<void>
}

/** A report counts while it is younger: one that was written for an earlier question may be out of date. */
const VALID_MS = 3000

export class PostgresReports implements ServerReports {
  readonly #services: ReportServices
  #make: (() => string) | undefined
  #reading: Promise<string[]> | undefined
  #hasWritten = false

  constructor(services: ReportServices) {
    this.#services = services
  }

  /** Sets how the report of this server is made. */
  reportWith(make: () => string): void {
    this.#make = make
  }

  /** The reports of the other servers; without those that do not answer in time. Who asks meanwhile gets the same ones. */
  others(): Promise<string[]> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  /** Another server asks. */
  async write(): Promise<void> {
    if (!this.#make) return
    this.#hasWritten = true
    const { id, run } = this.#services
    await run(STATEMENTS.report, [id, this.#make()])
  }

  async close(): Promise<void> {
    this.#make = undefined
    const { id, run } = this.#services
    // If it fails, the report is soon too old to count.
    if (this.#hasWritten) await run(STATEMENTS.forgetReport, [id]).catch(() => {})
  }

  async #read(): Promise<string[]> {
    const { id, run, asked } = this.#services
    await asked()
    const rows = await run(STATEMENTS.reports, [id, VALID_MS])
    return rows.map(([report]) => report ?? '')
  }
}
