/** The settings of the scheduler, with the names of CouchDB 3. */
import type { Configuration } from '../../config/configuration.ts'

export interface SchedulerSettings {
  /** Jobs that run at a time. */
  readonly maxJobs: number
  /** How often waiting jobs get the slots of running ones. */
  readonly intervalMs: number
  /** How many get one then. */
  readonly maxChurn: number
  /** Events that are kept of a job. */
  readonly maxHistory: number
  /** Jobs of documents begin within this time after the server did. */
  readonly startupJitterMs: number
  /** After a run of this length the failures before it no longer count. */
  readonly healthThresholdMs: number
  /** Failures in a row after which a job is tried no more. */
  readonly retryLimit: number
  readonly backOff: BackOff
}

export function schedulerSettings(configuration: Configuration): SchedulerSettings {
  const integer = (key: string) => configuration.integer('replicator', key)
  const retries = configuration.text('replicator', 'max_replication_retry_count')
  return {
    maxJobs: integer('max_jobs'),
    intervalMs: integer('interval'),
    maxChurn: integer('max_churn'),
    maxHistory: integer('max_history'),
    startupJitterMs: integer('startup_jitter'),
    healthThresholdMs: 1000 * integer('health_threshold'),
    retryLimit: retries === 'infinity' ? Number.POSITIVE_INFINITY : Number(retries),
    backOff: { delayMs: integer('retry_delay_ms'), limitMs: integer('retry_delay_limit_ms') },
  }
}

/**
 * How long a failing job waits before it is tried again: twice as long after each failure, up to a limit. A random part
 * on top spreads the jobs that failed together, so that a recovered peer is not hit by all of them at once.
 */
export interface BackOff {
  readonly delayMs: number
  readonly limitMs: number
}

/** The jitter, as a fraction of the delay. */
const JITTER = 0.25

/** Beyond this number of doublings every limit is reached. */
const MOST_DOUBLINGS = 40

/** The delay after a number of failures in a row; 1 for the first. */
export function backOffMs({ delayMs, limitMs }: BackOff, failures: number, random: () => number = Math.random): number {
  const doublings = Math.min(failures - 1, MOST_DOUBLINGS)
  return Math.floor(Math.min(limitMs, delayMs * 2 ** doublings) * (1 + JITTER * random()))
}
