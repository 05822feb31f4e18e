/**
 * How the servers of an engine ask each other. A request is a signal that is confirmed when it is carried out. Reports are
 * longer, and are written to a table when somebody asks: they cost nothing while nobody does.
 */
import type { OtherServers, ServerReports } from '../other-servers.ts'
import { SharedRuns } from '../shared-runs.ts'
import type { Parameter, ResultRow } from './connection.ts'
import { inTime } from './in-time.ts'
import { STATEMENTS, type Statement } from './statements.ts'

export interface OtherServerServices {
  /** This server. */
  readonly id: Buffer
  run(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]>
  /** Resolves when all other servers have carried out the request, or after a timeout; false where some have not. */
  request(text: string, timeoutMs: number): Promise<boolean>
}

/** How long other servers have to report. */
const REPORT_MS = 2000
/** How long the whole takes at most, also where PostgreSQL does not answer. */
const REPORTS_MS = 4000
/** A report counts while it is younger: one that was written for an earlier question may be out of date. */
const VALID_MS = 3000
/** How long they have to do what they are asked for. */
const WORK_MS = 10_000

const REPORT = 'report'
const ASK = 'ask '

export class PostgresOtherServers implements OtherServers {
  readonly #services: OtherServerServices
  #make: (() => string) | undefined
  #handle: ((request: string) => Promise<void>) | undefined
  #hasReported = false
  /** One at a time: an older report must not replace a newer one. */
  readonly #reporting = new SharedRuns(() => this.#report())

  constructor(services: OtherServerServices) {
    this.#services = services
  }

  reportWith(make: () => string): void {
    this.#make = make
  }

  answerWith(handle: (request: string) => Promise<void>): void {
    this.#handle = handle
  }

  reports(): Promise<ServerReports> {
    return inTime(this.#reports(), REPORTS_MS)
  }

  async ask(request: string): Promise<void> {
    await this.#services.request(`${ASK}${request}`, WORK_MS)
  }

  /** A request of another server. Resolves when it is carried out. */
  async handle(request: string): Promise<void> {
    if (request === REPORT) await this.#reporting.run()
    else if (request.startsWith(ASK)) await this.#handle?.(request.slice(ASK.length))
  }

  async close(): Promise<void> {
    this.#make = undefined
    this.#handle = undefined
    const { id, run } = this.#services
    // If it fails, the report is soon too old to count.
    if (this.#hasReported) await run(STATEMENTS.forgetReport, [id]).catch(() => {})
  }

  async #reports(): Promise<ServerReports> {
    const { id, run, request } = this.#services
    const areAll = await request(REPORT, REPORT_MS)
    const rows = await run(STATEMENTS.reports, [id, VALID_MS])
    return { texts: rows.map(([report]) => report ?? ''), areAll }
  }

  async #report(): Promise<void> {
    if (!this.#make) return
    this.#hasReported = true
    const { id, run } = this.#services
    await run(STATEMENTS.report, [id, this.#make()])
  }
}
