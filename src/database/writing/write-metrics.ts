/** What the write queues of all databases measure together. */
import { Metrics } from '../../runtime/metrics.ts'

export class WriteMetrics {
  readonly commits
  readonly failures
  readonly documents
  readonly commitTimes
  readonly flushTimes
  /** Requests that wait for their commit, that under way included, and the bytes of their documents. */
  waiting = 0
  waitingBytes = 0
  /** Whether the last commit failed, and when: a disk that is full fails them all. */
  lastFailure: { readonly reason: string; readonly atMs: number } | undefined

  constructor(metrics: Metrics = new Metrics()) {
    this.commits = metrics.counter('couchdb_commits_total', 'commits of databases')
    this.failures = metrics.counter('settle_commit_failures_total', 'commits of databases that failed')
    this.documents = metrics.counter('couchdb_document_writes_total', 'documents that commits of databases wrote')
    this.commitTimes = metrics.histogram(
      'settle_commit_duration_seconds',
      'time of a commit: read what is there, decide, write, flush',
    )
    this.flushTimes = metrics.histogram('settle_flush_duration_seconds', 'time until a commit is on disk')
    metrics.gauge('settle_write_queue_requests', 'writes that wait for their commit', () => this.waiting)
    metrics.gauge('settle_write_queue_bytes', 'bytes of documents that wait for their commit', () => this.waitingBytes)
  }

  committed(documents: number, beganMs: number, flushBeganMs: number): void {
    const nowMs = performance.now()
    this.commits.add()
    this.documents.add(documents)
    this.commitTimes.observe(nowMs - beganMs)
    this.flushTimes.observe(nowMs - flushBeganMs)
    this.lastFailure = undefined
  }

  failed(error: unknown): void {
    this.failures.add()
    this.lastFailure = { reason: error instanceof Error ? error.message : String(error), atMs: performance.now() }
  }
}
