/** Settings of a scheduler and the progress of a replication that did nothing, for tests without databases. */
import type { ReplicationProgress } from '../../../src/replication/replication.ts'
import type { SchedulerSettings } from '../../../src/replication/scheduler/scheduler-settings.ts'

export const SCHEDULER_SETTINGS: SchedulerSettings = {
  maxJobs: 2,
  intervalMs: 1000,
  maxChurn: 1,
  maxHistory: 5,
  startupJitterMs: 0,
  healthThresholdMs: 60_000,
  retryLimit: 3,
  backOff: { delayMs: 100, limitMs: 1000 },
}

export const NO_PROGRESS: ReplicationProgress = {
  revisions_checked: 0,
  missing_revisions_found: 0,
  docs_read: 0,
  docs_written: 0,
  doc_write_failures: 0,
  source_seq: 0,
  checkpointed_source_seq: 0,
  through_seq: 0,
  changes_pending: 0,
  progress: 100,
}
