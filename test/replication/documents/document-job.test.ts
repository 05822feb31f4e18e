/** The job of one replication document, and revisions of the document that its feed delivers late. */
import { expect, it } from 'vitest'
import { parseRevision, type RevisionId } from '../../../src/document/ids.ts'
import { DocumentJob, type PreparedReplication } from '../../../src/replication/documents/document-job.ts'
import {
  membersOf,
  type ReplicationDocument,
  withState,
} from '../../../src/replication/documents/replication-document.ts'
import { Scheduler } from '../../../src/replication/scheduler/scheduler.ts'
import type { SchedulerSettings } from '../../../src/replication/scheduler/scheduler-settings.ts'
import { systemClock } from '../../../src/runtime/clock.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { TaskRegistry } from '../../../src/runtime/tasks.ts'
import { until } from '../../support/until.ts'
import { NO_PROGRESS, SCHEDULER_SETTINGS } from '../scheduler/scheduler-values.ts'

const SETTINGS: SchedulerSettings = {
  ...SCHEDULER_SETTINGS,
  maxJobs: 10,
  intervalMs: 60_000,
  backOff: { delayMs: 100_000, limitMs: 100_000 },
}

function revision(generation: number): RevisionId {
  return parseRevision(`${generation}-${'a'.repeat(32)}`)
}

/** A database of one document, whose replication does nothing and ends on request. */
class TestDocument {
  readonly revisions: ReplicationDocument[] = [
    { id: 'job', revision: revision(1), body: Buffer.from('{"source":"a","target":"b"}'), attachments: [] },
  ]
  readonly runs: PromiseWithResolvers<void>[] = []
  readonly job: DocumentJob

  constructor() {
    const reasonOf = String
    const settings = () => SETTINGS
    const tasks = new TaskRegistry(systemClock)
    const scheduler = new Scheduler({ settings, tasks, clock: systemClock, log: silentLog, random: () => 0, reasonOf })
    this.job = new DocumentJob('_replicator', this.last, {
      scheduler,
      settings,
      clock: systemClock,
      log: silentLog,
      reasonOf,
      prepare: async () => this.#prepared(),
      write: async (document, state) => {
        if (document.revision !== this.last.revision) return undefined
        const body = withState(document, state, 0)
        if (!body) return document
        this.revisions.push({ ...document, body, revision: revision(this.revisions.length + 1) })
        return this.last
      },
    })
  }

  get last(): ReplicationDocument {
    return this.revisions.at(-1)!
  }

  get states(): unknown[] {
    return this.revisions.map((each) => membersOf(each)._replication_state)
  }

  #prepared(): PreparedReplication {
    const subject = { id: 'r', source: 'a', target: 'b', isContinuous: false, checkpointIntervalMs: 5000, user: null }
    return {
      subject,
      baseId: 'r',
      attempt: () => {
        const run = Promise.withResolvers<void>()
        this.runs.push(run)
        return {
          onStarted: undefined,
          onProgress: undefined,
          progress: () => NO_PROGRESS,
          async run(signal) {
            signal.addEventListener('abort', () => run.reject(signal.reason))
            this.onStarted?.()
            await run.promise
            return { reply: {}, progress: NO_PROGRESS }
          },
        }
      },
    }
  }
}

it('is not run again by a revision that it wrote and has replaced', async () => {
  const document = new TestDocument()
  document.job.start()
  await until(() => document.states.includes('triggered'))
  document.runs[0]?.resolve()
  await until(() => document.states.includes('completed'))
  expect(document.states).toEqual([undefined, 'triggered', 'completed'])
  // The feed had read the second revision before the third one was written.
  await document.job.update(document.revisions[1]!)
  await document.job.update(document.revisions[2]!)
  expect(document.job.status).toEqual({ state: 'completed' })
  expect(document.runs).toHaveLength(1)
  // What somebody else writes counts, also where it is what was there before.
  const again = { ...document.revisions[0]!, revision: revision(4) }
  document.revisions.push(again)
  await document.job.update(again)
  await until(() => document.runs.length === 2)
  await document.job.stop()
})
