/** What one session of a replication did so far. */

export class SessionStatistics {
  /** Revisions that the target was asked about. */
  missingChecked = 0
  /** Those of them that it did not have. */
  missingFound = 0
  docsRead = 0
  docsWritten = 0
  docWriteFailures = 0
}
